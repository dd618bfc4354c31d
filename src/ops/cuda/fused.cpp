// The GPU side of ops/fused.h: takes tensors apart for the kernels (fused.cu).
#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>

#include <limits>

#include "ops/cuda/fused.h"
#include "ops/cuda/tensors.h"

namespace openwork {
namespace {

using at::Tensor;

Tensor rotate_pairs(const Tensor& x_in, const Tensor& cosine, const Tensor& sine, bool back) {
  const c10::cuda::CUDAGuard guard(x_in.device());
  const Tensor x = x_in.stride(3) == 1 ? x_in : x_in.contiguous();
  TORCH_CHECK(cosine.scalar_type() == x.scalar_type() && cosine.is_contiguous() && sine.is_contiguous() &&
                  sine.sizes() == cosine.sizes() && cosine.size(0) == x.size(1) &&
                  2 * cosine.size(1) <= x.size(3),
              "rotate_pairs: tables of ", cosine.sizes(), " do not fit x of ", x.sizes());
  Tensor out = at::empty(x.sizes(), x.options());
  C10_CUDA_CHECK(cuda::launch_rotation(
      {element_of(x, "rotate_pairs"), x.size(0), x.size(1), x.size(2), static_cast<int>(x.size(3)),
       static_cast<int>(cosine.size(1)), back, x.stride(0), x.stride(1), x.stride(2), x.const_data_ptr(),
       cosine.const_data_ptr(), sine.const_data_ptr(), out.mutable_data_ptr()},
      stream_of(x)));
  return out;
}

Tensor silu_product(const Tensor& gate_in, const Tensor& linear_in) {
  TORCH_CHECK(gate_in.sizes() == linear_in.sizes() && gate_in.scalar_type() == linear_in.scalar_type(),
              "silu_product: ", gate_in.sizes(), " and ", linear_in.sizes(),
              "; one shape and dtype is wanted");
  const c10::cuda::CUDAGuard guard(gate_in.device());
  const Tensor gate = gate_in.contiguous(), linear = linear_in.contiguous();
  Tensor out = at::empty_like(gate);
  cuda::SiluProduct arguments{element_of(gate, "silu_product"), gate.numel(), gate.const_data_ptr(),
                              linear.const_data_ptr()};
  arguments.out = out.mutable_data_ptr();
  C10_CUDA_CHECK(cuda::launch_silu_product(arguments, stream_of(gate)));
  return out;
}

std::tuple<Tensor, Tensor> silu_product_backward(const Tensor& grad_in, const Tensor& gate_in,
                                                 const Tensor& linear_in) {
  const c10::cuda::CUDAGuard guard(gate_in.device());
  const Tensor grad = grad_in.contiguous(), gate = gate_in.contiguous(), linear = linear_in.contiguous();
  Tensor grad_gate = at::empty_like(gate), grad_linear = at::empty_like(gate);
  C10_CUDA_CHECK(cuda::launch_silu_product_backward(
      {element_of(gate, "silu_product"), gate.numel(), gate.const_data_ptr(), linear.const_data_ptr(),
       grad.const_data_ptr(), nullptr, grad_gate.mutable_data_ptr(), grad_linear.mutable_data_ptr()},
      stream_of(gate)));
  return {grad_gate, grad_linear};
}

// Logits whose rows are contiguous, padded or not.
cuda::CrossEntropy describe(const Tensor& logits, const Tensor& targets) {
  TORCH_CHECK(logits.dim() == 2 && logits.stride(1) == 1 && targets.is_contiguous() &&
                  targets.scalar_type() == at::kLong && targets.numel() == logits.size(0) &&
                  logits.size(0) <= std::numeric_limits<int>::max(),
              "cross_entropy: logits of ", logits.sizes(), " and targets of ", targets.sizes());
  cuda::CrossEntropy arguments{element_of(logits, "cross_entropy"), logits.size(0), logits.size(1),
                               logits.stride(0)};
  arguments.logits = logits.const_data_ptr();
  arguments.targets = targets.const_data_ptr<int64_t>();
  return arguments;
}

Tensor with_contiguous_rows(const Tensor& logits) {
  return logits.stride(1) == 1 ? logits : logits.contiguous();
}

std::tuple<Tensor, Tensor> cross_entropy(const Tensor& logits_in, const Tensor& targets_in) {
  const c10::cuda::CUDAGuard guard(logits_in.device());
  const Tensor logits = with_contiguous_rows(logits_in), targets = targets_in.contiguous();
  cuda::CrossEntropy arguments = describe(logits, targets);
  const auto floats = logits.options().dtype(at::kFloat);
  Tensor losses = at::empty({logits.size(0)}, floats), log_sum_exp = at::empty_like(losses);
  arguments.losses = losses.mutable_data_ptr<float>();
  arguments.log_sum_exp = log_sum_exp.mutable_data_ptr<float>();
  C10_CUDA_CHECK(cuda::launch_cross_entropy(arguments, stream_of(logits)));
  return {losses, log_sum_exp};
}

Tensor cross_entropy_backward(const Tensor& grad_in, const Tensor& logits_in, const Tensor& targets_in,
                              const Tensor& log_sum_exp) {
  const c10::cuda::CUDAGuard guard(logits_in.device());
  const Tensor logits = with_contiguous_rows(logits_in), targets = targets_in.contiguous();
  const Tensor grad = grad_in.to(at::kFloat);
  cuda::CrossEntropy arguments = describe(logits, targets);
  Tensor grad_logits = at::empty_strided(logits.sizes(), logits.strides(), logits.options());
  arguments.grad = grad.const_data_ptr<float>();
  arguments.log_sum_exp = const_cast<float*>(log_sum_exp.const_data_ptr<float>());
  arguments.grad_logits = grad_logits.mutable_data_ptr();
  C10_CUDA_CHECK(cuda::launch_cross_entropy_backward(arguments, stream_of(logits)));
  return grad_logits;
}

}  // namespace

TORCH_LIBRARY_IMPL(openwork, CUDA, library) {
  library.impl("rotate_pairs", rotate_pairs);
  library.impl("silu_product", silu_product);
  library.impl("silu_product_backward", silu_product_backward);
  library.impl("cross_entropy", cross_entropy);
  library.impl("cross_entropy_backward", cross_entropy_backward);
}

}  // namespace openwork
