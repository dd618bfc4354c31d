#include "ops/vocabulary_product.h"

#include <ATen/ATen.h>

namespace openwork {
namespace {

using at::Tensor;

constexpr int64_t kAlignment = 8;  // elements of two bytes: the 16 bytes that tensor cores load at once

bool is_aligned(const Tensor& x, int64_t V) {
  return V % kAlignment == 0 || x.element_size() != 2 || !x.is_cuda();
}

}  // namespace

std::vector<Columns> vocabulary_parts(const Tensor& x, int64_t V) {
  const int64_t whole = V / kAlignment * kAlignment;
  if (is_aligned(x, V) || whole == 0) return {{0, V}};
  return {{0, whole}, {whole, V - whole}};
}

Tensor empty_logits(const Tensor& x, int64_t rows, int64_t V) {
  const int64_t stride = is_aligned(x, V) ? V : V / kAlignment * kAlignment + kAlignment;
  return at::empty_strided({rows, V}, {stride, 1}, x.options());
}

void multiply_vocabulary(Tensor logits, const Tensor& x, const Tensor& weight) {
  for (const auto& [from, count] : vocabulary_parts(x, weight.size(0))) {
    Tensor part = logits.narrow(1, from, count);
    at::mm_out(part, x, weight.narrow(0, from, count).t());
  }
}

void multiply_slopes(Tensor grad_x, const Tensor& slopes, const Tensor& weight) {
  for (const auto& [from, count] : vocabulary_parts(slopes, weight.size(0))) {
    const Tensor part = slopes.narrow(1, from, count), rows = weight.narrow(0, from, count);
    from == 0 ? at::mm_out(grad_x, part, rows) : grad_x.addmm_(part, rows);
  }
}

}  // namespace openwork
