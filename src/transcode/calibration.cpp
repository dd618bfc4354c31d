#include "transcode/calibration.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include "base/philox.h"

namespace openwork {
namespace {

Tensor median_of(const Tensor& numbers) {
  return std::get<0>(numbers.median(-1));
}  // [L, N] -> [L]

Tensor scale_of(const Tensor& activations) {  // [L, N, D] -> [L]
  return median_of(activations.to(at::kFloat).square().mean(-1)).sqrt().clamp_min(1e-12);
}

Tensor squared_distance(const Tensor& outputs, const Tensor& mean) {  // [L, N]
  return (outputs.to(at::kFloat) - mean.unsqueeze(1)).square().sum(-1);
}

Tensor token_weights(const Tensor& distance, const Tensor& energy) {
  return (kMostEnergy * energy.unsqueeze(1) / distance.clamp_min(1e-12)).clamp_max(1);
}

Tensor unit_rows(const Tensor& rows) {
  return rows / at::linalg_vector_norm(rows, 2, {-1}, true).clamp_min(1e-12);
}

// F tokens of N drawn for every layer, without repetition as long as there are enough.
Tensor draw_tokens(int64_t count, int64_t tokens, at::Generator& generator) {
  std::vector<Tensor> rounds;
  for (int64_t drawn = 0; drawn < count; drawn += tokens) {
    rounds.push_back(at::randperm(tokens, generator, at::TensorOptions().dtype(at::kLong)));
  }
  return at::cat(rounds).narrow(0, 0, count);
}

// Directions [L, F, D] of the drawn tokens, with some noise, so that no two features are one.
Tensor draw_directions(const Tensor& centred, const Tensor& drawn, at::Generator& generator) {
  constexpr double kNoise = 0.3;  // of the direction's length
  const Tensor rows = unit_rows(centred.index_select(1, drawn.to(centred.device())));
  const Tensor noise = at::randn(rows.sizes(), generator, at::TensorOptions().dtype(at::kFloat));
  return unit_rows(rows + kNoise * unit_rows(noise.to(rows.device())));
}

// The decoders of a feature to all its targets begin as its own layer's, to the others 0.
void place_decoders(const TranscoderShape& shape, const Tensor& own, const Tensor& decoder) {
  if (shape.kind == TranscoderKind::kPerLayer) {
    decoder.copy_(own);
    return;
  }
  decoder.zero_();
  for (int64_t n = 0; n < shape.layers; ++n) decoder.select(0, n * (n + 1) / 2 + n).copy_(own[n]);
}

// Feature 0 of every layer with huge tokens: S at their mean input, -S at the others', writing S times the
// mean output's direction. Other layers are left as they are.
void place_huge_feature(const Tensor& inputs, const Tensor& centred, const Tensor& distance,
                        const Tensor& energy, const TranscoderParts& parts, const Tensor& own) {
  const Tensor huge =
      (distance > kHugeEnergy * energy.unsqueeze(1)).to(at::kFloat).unsqueeze(-1);         // [L, N, 1]
  const Tensor count = huge.sum(1).clamp_min(1), others = (1 - huge).sum(1).clamp_min(1);  // [L, 1]
  const Tensor there = (inputs * huge).sum(1) / count, elsewhere = (inputs * (1 - huge)).sum(1) / others;
  const Tensor output = (centred * huge).sum(1) / count;              // [L, D]
  const Tensor size = at::linalg_vector_norm(output, 2, {-1}, true);  // [L, 1]
  const Tensor direction = there - elsewhere;                         // [L, D]
  const Tensor encoder = 2 * size * direction / direction.square().sum(-1, true).clamp_min(1e-12);
  const Tensor bias = -size - (encoder * elsewhere).sum(-1, true);
  const Tensor has = huge.sum(1) > 0;  // [L, 1]
  const auto put = [&](const Tensor& place, const Tensor& value) {
    Tensor(place).copy_(at::where(has, value, place));
  };
  put(parts.encoder.select(1, 0), encoder);
  put(parts.encoder_bias.narrow(1, 0, 1), bias);
  put(own.select(1, 0), output / size.clamp_min(1e-12));
}

// W [L, D, D], out by in, that brings centred inputs nearest to centred outputs, weighted least squares. The
// ridge keeps directions that few tokens have from being learned by heart.
Tensor fit_linear(const Tensor& inputs, const Tensor& outputs, const Tensor& weights) {
  constexpr double kRidge = 0.01;                              // of the inputs' mean square times the tokens
  const Tensor weighted = (inputs * weights).transpose(1, 2);  // [L, D, N]
  const Tensor gram = at::bmm(weighted, inputs), cross = at::bmm(weighted, outputs);
  const Tensor size = gram.diagonal(0, 1, 2).mean(-1).clamp_min(1e-12).view({-1, 1, 1});
  const Tensor eye = at::eye(gram.size(-1), gram.options());
  // By Cholesky: a batch of LU factors, each by MKL with threads of its own, stands still on a CPU.
  return at::cholesky_solve(cross, at::linalg_cholesky(gram + kRidge * size * eye)).transpose(1, 2);
}

}  // namespace

ActivationScales measure_scales(const MlpActivations& activations) {
  const at::NoGradGuard no_grad;
  ActivationScales scales;
  scales.input = scale_of(activations.inputs);
  scales.output = scale_of(activations.outputs);
  const Tensor outputs = activations.outputs.to(at::kFloat) / scales.output.view({-1, 1, 1});
  // Weights hang on the mean and the mean on the weights: twice is enough.
  scales.mean = std::get<0>(outputs.median(1));
  for (int round = 0; round < 2; ++round) {
    const Tensor distance = squared_distance(outputs, scales.mean);
    scales.energy = median_of(distance).clamp_min(1e-12);
    const Tensor weights = token_weights(distance, scales.energy).unsqueeze(-1);  // [L, N, 1]
    scales.mean = (outputs * weights).sum(1) / weights.sum(1);
  }
  const Tensor distance = squared_distance(outputs, scales.mean);
  scales.variance = (distance * token_weights(distance, scales.energy)).mean(1).clamp_min(1e-12);
  return scales;
}

ScaledActivations scale_activations(const MlpActivations& activations, const ActivationScales& scales) {
  const at::NoGradGuard no_grad;
  // A scale is a tensor of no dimensions: it multiplies in float32 and leaves the dtype as it is.
  const auto scaled = [](const Tensor& x, const Tensor& scale) {
    Tensor result = at::empty_like(x);
    for (int64_t l = 0; l < x.size(0); ++l) {
      Tensor layer = result.select(0, l);
      at::mul_out(layer, x.select(0, l), scale[l].reciprocal());
    }
    return result;
  };
  const Tensor outputs = scaled(activations.outputs, scales.output);
  return {scaled(activations.inputs, scales.input), outputs,
          token_weights(squared_distance(outputs, scales.mean), scales.energy), activations.stream};
}

Tensor find_thresholds(const Tensor& features, int64_t k) {
  const at::NoGradGuard no_grad;
  const int64_t L = features.size(0), N = features.size(1), F = features.size(2);
  const int64_t tokens =
      std::min<int64_t>(N, std::max<int64_t>(1, (int64_t{1} << 21) / F));  // enough of them
  const Tensor some = features.narrow(1, 0, tokens).reshape({L, tokens * F}).to(at::kFloat);
  const int64_t place = std::max<int64_t>(1, tokens * F - tokens * std::min(k, F));
  return std::get<0>(some.kthvalue(place, -1)).clamp_min(1e-6);
}

Tensor start_features(const TranscoderShape& shape, const ScaledActivations& activations,
                      const ActivationScales& scales, int64_t k, uint64_t seed,
                      const TranscoderParts& parts) {
  const at::NoGradGuard no_grad;
  at::Generator generator = at::detail::createCPUGenerator(mix_seed(seed, 0x7472616e73));
  const Tensor inputs = activations.inputs.to(at::kFloat), outputs = activations.outputs.to(at::kFloat);
  const Tensor weights = activations.weights.unsqueeze(-1);              // [L, N, 1]
  const Tensor mean_input = (inputs * weights).sum(1) / weights.sum(1);  // [L, D]
  const Tensor centred_inputs = inputs - mean_input.unsqueeze(1);
  Tensor centred = outputs - scales.mean.unsqueeze(1);
  parts.decoder_bias.copy_(scales.mean);
  if (shape.skip) {
    parts.skip.copy_(fit_linear(centred_inputs, centred, weights));
    centred = centred - at::bmm(centred_inputs, parts.skip.transpose(1, 2));
    parts.decoder_bias.sub_(at::bmm(parts.skip, mean_input.unsqueeze(-1)).squeeze(-1));
  }
  const Tensor drawn = draw_tokens(shape.features, inputs.size(1), generator);
  const Tensor own = draw_directions(centred, drawn, generator);  // [L, F, D]
  parts.encoder.copy_(draw_directions(centred_inputs, drawn, generator));
  parts.encoder_bias.copy_(-at::bmm(parts.encoder, mean_input.unsqueeze(-1)).squeeze(-1));
  // The scale of a layer's encoders that brings what its features write nearest to the outputs.
  const Tensor before = at::baddbmm(parts.encoder_bias.unsqueeze(1), inputs, parts.encoder.transpose(1, 2));
  const Tensor threshold = find_thresholds(before, k);
  const Tensor features =
      at::where(before > threshold.view({-1, 1, 1}), before, at::zeros({}, before.options()));
  const Tensor written = at::bmm(features, own);
  const Tensor fit =
      (written * centred * weights).sum({1, 2}) / ((written.square() * weights).sum({1, 2}) + 1e-12);
  const Tensor scale = fit.clamp(0.05, 20);  // [L]
  parts.encoder.mul_(scale.view({-1, 1, 1}));
  parts.encoder_bias.mul_(scale.view({-1, 1}));
  place_huge_feature(inputs, centred, centred.square().sum(-1), scales.energy, parts, own);
  place_decoders(shape, own, parts.decoder);
  return threshold * scale;
}

}  // namespace openwork
