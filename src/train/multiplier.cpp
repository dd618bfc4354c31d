#include "train/multiplier.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

namespace openwork {

Multiplier::Multiplier(const MultiplierOptions& options, const at::Device& device)
    : options_(options), state_(at::tensor({options.start, 0.0, 0.0}, at::kDouble).to(device)) {}

Tensor Multiplier::lambda() const {
  return state_.select(0, 0);
}

void Multiplier::update(const Tensor& loss, double target) {
  const at::NoGradGuard no_grad;
  const double weight = 1 - options_.smoothing;
  Tensor lambda = state_.select(0, 0), sum = state_.select(0, 1), weights = state_.select(0, 2);
  sum.mul_(options_.smoothing).add_(loss.detach().to(at::kDouble), weight);
  weights.mul_(options_.smoothing).add_(weight);
  const Tensor distance = (sum / weights - target).clamp(-options_.clip, options_.clip);
  lambda.mul_((options_.rate * distance).exp()).clamp_(options_.lowest, options_.highest);
}

Multiplier::Reading Multiplier::read() const {
  const Tensor host = state_.cpu();
  const double* state = host.data_ptr<double>();
  return {state[0], state[2] > 0 ? state[1] / state[2] : 0, state[2] > 0};
}

std::optional<std::string> Multiplier::warn(const Reading& reading, double target, int patience) {
  const bool held = options_.rate == 0;  // a constant price reaches what it reaches
  at_bound_ = reading.lambda >= options_.highest && !held ? at_bound_ + 1 : 0;
  if (warned_ || at_bound_ < patience) return std::nullopt;
  warned_ = true;
  return fmt::format(
      "warning: the target {:.4f} cannot be reached at this learning rate: the multiplier sits at its upper "
      "bound {} "
      "and the loss at {:.4f}, so that no edges close; loosen --tolerance or --target-loss, add "
      "--target-slack, or "
      "lower --lr",
      target, options_.highest, reading.average);
}

}  // namespace openwork
