#include "transcode/transcoder_gradients.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace openwork {
namespace {

constexpr double kAuxiliaryWeight = 1.0 / 32;

Tensor mark_largest(const Tensor& numbers, int64_t k) {  // [L, N, F] bool: the k largest of each row
  const Tensor places = std::get<1>(numbers.topk(std::min(k, numbers.size(-1)), -1, true, false));
  return at::zeros(numbers.sizes(), numbers.options().dtype(at::kBool)).scatter_(-1, places, true);
}

// features [L, N, F] where `active`, and the gradient of their summed output [L, N, D].
void add_gradients(const TranscoderShape& shape, const TranscoderParts& parts, const Tensor& inputs,
                   const Tensor& features, const Tensor& active, const Tensor& gradient,
                   const TranscoderParts& into) {
  add_decoder_gradient(shape, features, gradient, into.decoder);
  const Tensor back = carry_back(shape, parts.decoder, gradient).mul_(active);  // [L, N, F]
  into.encoder.add_(at::bmm(back.transpose(1, 2), inputs));
  into.encoder_bias.add_(back.sum(1, false, at::kFloat));
}

// The error left on every stride-th token, modelled by dead features.
void add_auxiliary(const TranscoderShape& shape, const TranscoderParts& parts, const Tensor& inputs,
                   const Tensor& before, const Tensor& error, const Tensor& weights, const Tensor& dead,
                   const PassOptions& options, const TranscoderParts& into) {
  const auto thin = [&](const Tensor& x) { return x.slice(1, 0, x.size(1), options.stride); };
  const Tensor some = thin(before), left = -thin(error), weight = thin(weights).unsqueeze(-1);
  const Tensor candidates = at::where(dead.unsqueeze(1), some, at::zeros({}, some.options()));
  const Tensor active = mark_largest(candidates, options.k).logical_and_(candidates > 0);
  const Tensor features = candidates * active;
  const Tensor miss = decode_all(shape, parts.decoder, features).to(at::kFloat) - left;
  // In units of the error that is left, whose mean square this many tokens of the batch share.
  const Tensor size = (left.square() * weight).mean({1, 2}, true).clamp_min(1e-12);  // [L, 1, 1]
  const double tokens = static_cast<double>(options.tokens) / static_cast<double>(options.stride);
  const Tensor gradient = (miss * weight * (2 * kAuxiliaryWeight / tokens) / size).to(inputs.dtype());
  add_gradients(shape, parts, thin(inputs), features, active, gradient, into);
}

}  // namespace

PassSums make_pass_sums(const TranscoderShape& shape, const at::Device& device) {
  const int64_t L = shape.layers, F = shape.features, numbers = shape.numbers();
  PassSums sums;
  sums.flat = at::zeros({numbers + L * F + 3 * L + 1}, at::TensorOptions().dtype(at::kFloat).device(device));
  sums.gradients = split_parts(shape, sums.flat.narrow(0, 0, numbers));
  sums.fired = sums.flat.narrow(0, numbers, L * F).view({L, F});
  sums.error = sums.flat.narrow(0, numbers + L * F, L);
  sums.above = sums.flat.narrow(0, numbers + L * F + L, L);
  sums.distance = sums.flat.narrow(0, numbers + L * F + 2 * L, 1);
  sums.own_error = sums.flat.narrow(0, numbers + L * F + 2 * L + 1, L);
  return sums;
}

void add_pass(const TranscoderShape& shape, const TranscoderParts& parts,
              const ScaledActivations& activations, const ActivationScales& scales, const Tensor& threshold,
              const Tensor& dead, const PassOptions& options, const PassSums& sums) {
  const at::NoGradGuard no_grad;
  const Tensor& x = activations.inputs;
  const Tensor before =
      at::baddbmm(parts.encoder_bias.unsqueeze(1), x, parts.encoder.transpose(1, 2));  // [L, N, F]
  const Tensor above = before > threshold.to(before.dtype()).view({-1, 1, 1});
  const Tensor active = options.selection == FeatureSelection::kTopK
                            ? mark_largest(before, options.k).logical_and_(before > 0)
                            : above;
  const Tensor features = before * active;
  const Tensor fired = active.sum(1, false, at::kFloat);  // [L, F]
  sums.fired.add_(fired);
  sums.above.add_(options.selection == FeatureSelection::kTopK ? above.sum({1, 2}, false, at::kFloat)
                                                               : fired.sum(1));

  Tensor out = decode_all(shape, parts.decoder, features).to(at::kFloat);
  if (shape.skip) out = out + at::bmm(x, parts.skip.transpose(1, 2));
  const Tensor error =
      out + parts.decoder_bias.to(at::kFloat).unsqueeze(1) - activations.outputs;                // [L, N, D]
  const Tensor unit = (scales.variance * static_cast<double>(options.tokens)).view({-1, 1, 1});  // N v
  const Tensor weighted = error * (activations.weights.unsqueeze(-1) / unit);
  sums.error.add_((weighted * error).sum({1, 2}));
  const Tensor gradient = weighted * (2.0 * static_cast<double>(shape.width));
  sums.gradients.decoder_bias.add_(gradient.sum(1));
  const Tensor narrow = gradient.to(x.dtype());
  if (shape.skip) sums.gradients.skip.add_(at::bmm(narrow.transpose(1, 2), x));
  add_gradients(shape, parts, x, features, active, narrow, sums.gradients);
  add_auxiliary(shape, parts, x, before, error, activations.weights, dead, options, sums.gradients);
}

}  // namespace openwork
