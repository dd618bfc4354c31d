// The doors to the CPU's kernels for single rows (cpu/rowwise.cpp). Whoever calls them asks is_rowwise first.
#pragma once
#include <ATen/core/Tensor.h>

namespace openwork {

// Whether the kernels take x [B, T, ...]: float32, bfloat16 or float16 on the CPU, no gradient wanted of it, and no more
// tokens than a step of generation has. With more the calls are not what takes time, and a pass without gradients
// (recomputed layers) must give the bits of one with them.
bool is_rowwise(const at::Tensor& x);

// x [..., D] over its root mean square, times weight [D] (of x's dtype) or undefined.
at::Tensor rms_norm_rows(const at::Tensor& x, const at::Tensor& weight, double epsilon);
// silu(gate) * linear, both of one shape.
at::Tensor silu_product_rows(const at::Tensor& gate, const at::Tensor& linear);
// x [B, T, heads, d], turned by cosine and sine [T, half] (undefined: as it is), into `out` of the same shape.
void turn_rows(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine, const at::Tensor& out);

}  // namespace openwork
