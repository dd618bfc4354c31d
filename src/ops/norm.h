// A row's norm, and the sum it is of:
//   s = x + a        y = (s - m) / sqrt(v + e) * w + b
// m and v are the mean and variance of s over its last dimension; of an RMS norm m is 0 and v the mean square. On a GPU
// one kernel makes s and y, and one the gradients of both with what each row adds to those of w and b, where ATen goes
// over memory once for the sum, once for the norm and three times back. Else ATen's calls, or on the CPU for few rows a
// kernel (rowwise.h). First derivatives only.
#pragma once
#include <ATen/core/Tensor.h>

namespace openwork {

struct RowNorm {
  at::Tensor weight, bias;  // w, b [d], or undefined
  double epsilon = 0;       // e
  bool centred = false;     // a layer norm, else an RMS norm, which has no bias
  // As in linear.h: on a GPU the gradients of w and b are added up in weight.grad() and bias.grad() themselves.
  bool adds_to_grad = false;
};

struct NormedSum {
  at::Tensor sum, normal;  // s, y
};

// Where `added` is undefined the sum is x by another name: who goes on with it, not with x, has both ways' gradients
// added up by the norm's kernel.
NormedSum normalise_sum(const at::Tensor& x, const at::Tensor& added, const RowNorm& norm);

at::Tensor normalise(const at::Tensor& x, const RowNorm& norm);

}  // namespace openwork
