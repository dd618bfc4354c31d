#include "train/optimiser.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace openwork {

AdamW::AdamW(const TrainedWeights& weights, const AdamWOptions& options)
    : weights_(weights),
      options_(options),
      first_(at::zeros_like(weights.masters())),
      second_(at::zeros_like(weights.masters())),
      steps_(at::zeros({1}, weights.masters().options())) {}

Tensor AdamW::step(const std::array<double, kSegments>& rates) {
  const at::NoGradGuard no_grad;
  const Tensor norm = at::linalg_vector_norm(weights_.gradients());
  const Tensor broken =
      norm.isfinite().logical_not().to(at::kFloat);  // the kernel leaves everything as it is
  std::optional<Tensor> scale;                       // the kernel divides gradients by it
  if (options_.clip > 0) scale = ((norm + 1e-6) / options_.clip).clamp_min(1);
  steps_ += 1;
  for (size_t n = 0; n < kSegments; ++n) {
    const auto segment = static_cast<Segment>(n);
    const auto part = [&](const Tensor& flat) { return std::vector<Tensor>{weights_.slice(flat, segment)}; };
    const std::vector<Tensor> masters = part(weights_.masters());
    if (masters.front().numel() == 0 || rates[n] == 0) continue;
    const double decay = segment == Segment::kDecayed ? options_.weight_decay : 0;
    at::_fused_adamw_(masters, part(weights_.gradients()), part(first_), part(second_), {},
                      {steps_.select(0, 0)}, rates[n], options_.beta1, options_.beta2, decay,
                      options_.epsilon, /*amsgrad=*/false, /*maximize=*/false, scale, broken);
  }
  return norm;
}

}  // namespace openwork
