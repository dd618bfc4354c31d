// What the kernels of ops/fused.h are given: plain numbers and device pointers, like launch.h. Every launcher
// enqueues on `stream` and returns the launch's error.
#pragma once
#include "ops/cuda/launch.h"

namespace openwork::cuda {

// x [B, T, heads, d] by its strides in elements (d contiguous), out contiguous.
struct Rotation {
  Element element = Element::kFloat32;
  int64_t B = 0, T = 0, heads = 0;
  int d = 0, half = 0;
  bool back = false;  // turn the other way
  int64_t batch_stride = 0, token_stride = 0, head_stride = 0;
  const void *x = nullptr, *cosine = nullptr, *sine = nullptr;  // tables [T, half]
  void* out = nullptr;
};
cudaError_t launch_rotation(const Rotation& arguments, cudaStream_t stream);

// All contiguous, `count` numbers; the gradients null for the forward pass, `out` for the backward one.
struct SiluProduct {
  Element element = Element::kFloat32;
  int64_t count = 0;
  const void *gate = nullptr, *linear = nullptr, *grad = nullptr;
  void *out = nullptr, *grad_gate = nullptr, *grad_linear = nullptr;
};
cudaError_t launch_silu_product(const SiluProduct& arguments, cudaStream_t stream);
cudaError_t launch_silu_product_backward(const SiluProduct& arguments, cudaStream_t stream);

// logits [N, V] with `stride` elements from row to row, grad_logits likewise.
struct CrossEntropy {
  Element element = Element::kFloat32;
  int64_t N = 0, V = 0, stride = 0;
  const void* logits = nullptr;
  const int64_t* targets = nullptr;
  float* losses = nullptr;       // [N]
  float* log_sum_exp = nullptr;  // [N]
  const float* grad = nullptr;   // one number: of the mean
  void* grad_logits = nullptr;
};
cudaError_t launch_cross_entropy(const CrossEntropy& arguments, cudaStream_t stream);
cudaError_t launch_cross_entropy_backward(const CrossEntropy& arguments, cudaStream_t stream);

}  // namespace openwork::cuda
