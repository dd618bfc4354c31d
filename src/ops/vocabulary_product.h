// Products with the matrix [V, d] that makes logits, their rows starting at aligned addresses whatever V is:
// tensor cores want that, and vocabularies of 50,257 exist. What is left of V beyond a multiple of the
// alignment is a product of its own: cuBLAS takes its slow unaligned kernels for the whole where V itself is
// odd. No gradients: fused.cpp and prediction_loss.cpp have those.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

namespace openwork {

struct Columns {
  int64_t from = 0, count = 0;
};

// The parts in which a product is made; one where nothing is to be aligned.
std::vector<Columns> vocabulary_parts(const at::Tensor& x, int64_t V);
// Room for logits [rows, V] of x's kind.
at::Tensor empty_logits(const at::Tensor& x, int64_t rows, int64_t V);

// logits = x W^T;  x [N, d], weight [V, d], logits [N, V] as empty_logits makes them.
void multiply_vocabulary(at::Tensor logits, const at::Tensor& x, const at::Tensor& weight);
// grad_x = slopes W;  slopes [N, V], grad_x [N, d].
void multiply_slopes(at::Tensor grad_x, const at::Tensor& slopes, const at::Tensor& weight);

}  // namespace openwork
