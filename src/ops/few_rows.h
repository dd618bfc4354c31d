// Linear layers of few rows, as generation asks for them: one token's row, or a small batch of them. Every weight is
// then read once and used once, so reading decides: half as many bytes should take half as long, which ATen's CPU
// products of bfloat16 and float16 do not reach at one row.
//   Tensor y = few_rows_linear(x, weight, bias);
#pragma once
#include <ATen/core/Tensor.h>

namespace openwork {

// x W^T + bias for x [..., in], W [out, in] (rows or columns contiguous) and bias [out] or undefined, sums in float32.
// A row's result does not depend on the rows beside it. at::linear where rows are many, gradients are wanted, or the
// tensors are not on the CPU in float32, bfloat16 or float16.
at::Tensor few_rows_linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {});

}  // namespace openwork
