#include "train/totals.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace openwork {

Totals::Totals(const TrainedWeights& weights)
    : layers_(weights.config().layers), heads_(weights.config().heads) {
  const auto wide = at::TensorOptions().dtype(at::kDouble).device(weights.options().device);
  steps_sums_ = at::zeros({2}, wide);
  pass_sums_ = at::zeros({2 + layers_ * heads_}, wide);
}

void Totals::add_pass(const Tensor& penalty, const Tensor& distance, const Tensor& active, double share) {
  const at::NoGradGuard no_grad;
  if (penalty.defined()) pass_sums_.select(0, 0).add_(penalty.to(at::kDouble), share);
  if (distance.defined()) pass_sums_.select(0, 1).add_(distance.to(at::kDouble), share);
  if (active.defined()) pass_sums_.narrow(0, 2, layers_ * heads_).add_(active.flatten());
}

void Totals::add_step(const Tensor& cross_entropy, const Tensor& norm) {
  const at::NoGradGuard no_grad;
  steps_sums_.select(0, 0).add_(cross_entropy);
  steps_sums_.select(0, 1).add_(norm);
  ++steps_;
}

bool Totals::is_finite() const {
  return steps_sums_.isfinite().all().item<bool>();
}

Totals::Reading Totals::read(Ranks& ranks) {
  const at::NoGradGuard no_grad;
  ranks.sum(pass_sums_);
  const Tensor of_steps = steps_sums_.cpu(), of_passes = pass_sums_.cpu();
  const double steps = static_cast<double>(steps_), *step = of_steps.data_ptr<double>(),
               *pass = of_passes.data_ptr<double>();
  Reading reading{step[0] / steps,
                  pass[0] / steps,
                  pass[1] / steps,
                  step[1] / steps,
                  of_passes.narrow(0, 2, layers_ * heads_).view({layers_, heads_}).clone(),
                  steps_};
  steps_sums_.zero_();
  pass_sums_.zero_();
  steps_ = 0;
  return reading;
}

}  // namespace openwork
