// Small operators between attention and matrix products, each one kernel forward and one backward on the GPU
// where ATen's own would be several passes over memory. On the CPU one kernel too for few tokens without
// gradients (rowwise.h); else, and on other devices, they are those ATen calls (GELU apart), which is also what the kernels are
// tested against. First derivatives only.
#pragma once
#include <ATen/core/Tensor.h>

namespace openwork {

// Rotary positions: pairs (x_n, x_{n + half}) turned by their position's angle, what lies beyond 2 half kept.
//   x [B, T, heads, d]; cosine, sine [T, half] of x's dtype; the result is contiguous.
at::Tensor rotate_pairs(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine);

// The same of attention's [B, heads, T, d], a view of such memory.
at::Tensor turn_heads(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine);

// silu(gate) * linear, both of one shape.
at::Tensor silu_product(const at::Tensor& gate, const at::Tensor& linear);

// GELU by its tanh formula; on the CPU in float32 a kernel of our own (cpu/gelu.cpp), elsewhere ATen's.
at::Tensor gelu_tanh(const at::Tensor& x);

// x W^T for x [..., in] and W [V, in], made as vocabulary_product.h says. The same as at::linear where V is a
// multiple of 8. A training loss needs no logits: prediction_loss.h.
at::Tensor project_to_vocabulary(const at::Tensor& x, const at::Tensor& weight);

}  // namespace openwork
