#include "train/optimiser.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "train/gradient_norm.h"

namespace openwork {

AdamW::AdamW(const TrainedWeights& weights, const AdamWOptions& options, Ranks* ranks)
    : weights_(weights),
      options_(options),
      ranks_(ranks),
      first_(
          at::zeros({weights.plan().shards.share() + weights.plan().gates()}, weights.masters().options())),
      second_(at::zeros_like(first_)),
      steps_(at::zeros({1}, weights.masters().options())) {}

Tensor AdamW::step(const std::array<double, kSegments>& rates) {
  const at::NoGradGuard no_grad;
  const Tensor norm = gradient_norm(weights_, ranks_);
  const Tensor broken =
      norm.isfinite().logical_not().to(at::kFloat);  // the kernel leaves everything as it is
  std::optional<Tensor> scale;                       // the kernel divides gradients by it
  if (options_.clip > 0) scale = ((norm + 1e-6) / options_.clip).clamp_min(1);
  steps_ += 1;
  for (size_t n = 0; n < kSegments; ++n) {
    const auto segment = static_cast<Segment>(n);
    std::vector<Tensor> masters, gradients, first, second, steps;
    for (const TrainedWeights::Owned& own : weights_.owned(segment)) {
      masters.push_back(own.master), gradients.push_back(own.gradient);
      first.push_back(first_.narrow(0, own.place, own.master.numel()));
      second.push_back(second_.narrow(0, own.place, own.master.numel()));
      steps.push_back(steps_.select(0, 0));
    }
    if (masters.empty() || rates[n] == 0) continue;
    const double decay = segment == Segment::kDecayed ? options_.weight_decay : 0;
    at::_fused_adamw_(masters, gradients, first, second, {}, steps, rates[n], options_.beta1, options_.beta2,
                      decay, options_.epsilon, /*amsgrad=*/false, /*maximize=*/false, scale, broken);
  }
  return norm;
}

}  // namespace openwork
