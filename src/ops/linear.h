// Linear layers as training has them: several that read the same rows (queries, keys and values; an MLP's gate and
// linear part) are one step of the graph, so that on a GPU the gradient of what they read is added up by the products
// themselves, and a bias's gradient is one pass over what comes back. Else each is few_rows_linear by itself.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

namespace openwork {

struct LinearWeights {
  at::Tensor weight;  // [out, in], or [in, out] where transposed
  at::Tensor bias;    // [out], or undefined
  bool transposed = false;
  // With gradients on a GPU: the product that is the weight's gradient is added up in weight.grad() itself, the bias's in
  // bias.grad(), and no gradient of them arrives anywhere else; for leaves that have one and are trained by backward().
  bool adds_to_grad = false;

  at::Tensor matrix() const { return transposed ? weight.t() : weight; }  // W [out, in]
};

// x W^T + b of each, for x [..., in]. First derivatives only.
std::vector<at::Tensor> linear_together(const at::Tensor& x, const std::vector<LinearWeights>& layers);

}  // namespace openwork
