#include "ops/rowwise.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "ops/cpu/tensors.h"

namespace openwork {
namespace {

using at::Tensor;

constexpr int64_t kGrain = 1 << 15;  // numbers that are worth a thread

// For [B, T, heads, d], where heads and tokens have changed places.
cpu::View view_of_tokens(const Tensor& x) {
  return {x.const_data_ptr(), x.stride(0), x.stride(2), x.stride(1)};
}

}  // namespace

bool is_rowwise(const Tensor& x) {
  return x.is_cpu() && is_single_or_half(x.scalar_type()) && x.numel() > 0 && x.dim() >= 3 &&
         x.size(0) * x.size(1) <= kFewTokens && !(at::GradMode::is_enabled() && x.requires_grad());
}

Tensor rms_norm_rows(const Tensor& x, const Tensor& weight, double epsilon) {
  const Tensor from = x.contiguous(), out = at::empty(from.sizes(), from.options());
  const Tensor scale = weight.defined() ? weight.contiguous() : weight;
  const cpu::RmsNormProblem problem{element_of(x.scalar_type()),
                                    x.size(-1),
                                    static_cast<float>(epsilon),
                                    from.const_data_ptr(),
                                    scale.defined() ? scale.const_data_ptr() : nullptr,
                                    out.mutable_data_ptr()};
  share_range(from.numel() / problem.width, std::max<int64_t>(1, kGrain / problem.width),
              [&](int64_t begin, int64_t end) { cpu::choose_kernels().rms_norm(problem, begin, end); });
  return out;
}

Tensor silu_product_rows(const Tensor& gate, const Tensor& linear) {
  const Tensor left = gate.contiguous(), right = linear.contiguous();
  const Tensor out = at::empty(left.sizes(), left.options());
  const cpu::SiluProblem problem{element_of(gate.scalar_type()), left.const_data_ptr(),
                                 right.const_data_ptr(), out.mutable_data_ptr()};
  share_range(left.numel(), kGrain,
              [&](int64_t begin, int64_t end) { cpu::choose_kernels().silu_product(problem, begin, end); });
  return out;
}

void turn_rows(const Tensor& x, const Tensor& cosine, const Tensor& sine, const Tensor& out) {
  const Tensor from = with_contiguous_rows(x);
  const bool turned = cosine.defined();
  const cpu::TurnProblem problem{element_of(x.scalar_type()),
                                 x.size(1),
                                 x.size(2),
                                 x.size(3),
                                 turned ? cosine.size(1) : 0,
                                 view_of_tokens(from),
                                 view_of_tokens(out),
                                 turned ? cosine.const_data_ptr() : nullptr,
                                 turned ? sine.const_data_ptr() : nullptr,
                                 turned ? cosine.stride(0) : 0};
  share_range(x.size(0) * x.size(1), std::max<int64_t>(1, kGrain / (x.size(2) * x.size(3))),
              [&](int64_t begin, int64_t end) { cpu::choose_kernels().turn(problem, begin, end); });
}

}  // namespace openwork
