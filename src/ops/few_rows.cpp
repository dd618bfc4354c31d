#include "ops/few_rows.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>

#include "ops/cpu/tensors.h"

namespace openwork {
namespace {

using at::Tensor;

constexpr int64_t kPiece = 1 << 14;  // weights of a task: few, so that threads end together
constexpr int64_t kWideColumns =
    256;  // outputs of a task where they lie side by side: whole vectors of every kernel

bool is_served(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (!x.device().is_cpu() || x.dim() == 0 || x.size(-1) == 0 || weight.dim() != 2) return false;
  const int64_t rows = x.numel() / x.size(-1);
  const auto dtype = x.scalar_type();
  const bool graded = at::GradMode::is_enabled() && (x.requires_grad() || weight.requires_grad() ||
                                                     (bias.defined() && bias.requires_grad()));
  return is_single_or_half(dtype) && !graded && rows > 0 && rows <= kFewTokens &&
         weight.scalar_type() == dtype && weight.size(1) == x.size(-1) &&
         (weight.stride(1) == 1 || weight.stride(0) == 1) &&
         (!bias.defined() || (bias.scalar_type() == dtype && bias.is_contiguous()));
}

// x as float, contiguous. Few numbers are converted in place: a call of ATen's takes longer.
class WideRows {
 public:
  explicit WideRows(const Tensor& x) {
    if (x.scalar_type() != at::kBFloat16 || !x.is_contiguous() ||
        x.numel() > static_cast<int64_t>(few_.size())) {
      many_ = x.to(at::kFloat).contiguous();
      return;
    }
    std::copy_n(x.const_data_ptr<at::BFloat16>(), x.numel(), few_.begin());
  }
  const float* data() const { return many_.defined() ? many_.const_data_ptr<float>() : few_.data(); }

 private:
  std::array<float, 2048> few_;
  Tensor many_;
};

}  // namespace

Tensor few_rows_linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (!is_served(x, weight, bias))
    return at::linear(x, weight, bias.defined() ? std::optional<Tensor>(bias) : std::nullopt);
  const WideRows wide(x);
  auto sizes = x.sizes().vec();
  sizes.back() = weight.size(0);
  const Tensor out = at::empty(sizes, x.options());
  cpu::FewRowsProblem problem{};
  problem.element = element_of(x.scalar_type());
  problem.inputs = weight.size(1), problem.outputs = weight.size(0);
  problem.rows = x.numel() / problem.inputs;
  problem.x = wide.data();
  problem.stored_x = x.is_contiguous() && x.scalar_type() != at::kFloat ? x.const_data_ptr() : nullptr;
  problem.weight = weight.const_data_ptr();
  problem.bias = bias.defined() ? bias.const_data_ptr() : nullptr;
  problem.transposed = weight.stride(1) != 1;
  problem.weight_stride = weight.stride(problem.transposed ? 1 : 0);
  problem.out = out.mutable_data_ptr();

  const int64_t piece = problem.transposed ? kWideColumns : std::max<int64_t>(1, kPiece / problem.inputs);
  const int64_t tasks = (problem.outputs + piece - 1) / piece;
  for_each_task(tasks, 0, [&](int64_t task, void*) {
    cpu::choose_kernels().few_rows(problem, task * piece, std::min((task + 1) * piece, problem.outputs));
  });
  return out;
}

}  // namespace openwork
