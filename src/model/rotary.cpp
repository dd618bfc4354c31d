// The frequency rules of transformers' rope_parameters, so that checkpoints mean here what they mean there.
#include "model/rotary.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "ops/fused.h"

namespace openwork {
namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

std::vector<double> plain_frequencies(double theta, int64_t size) {
  std::vector<double> frequencies(static_cast<size_t>(size / 2));
  for (size_t n = 0; n < frequencies.size(); ++n) {
    frequencies[n] = std::pow(theta, -2.0 * static_cast<double>(n) / static_cast<double>(size));
  }
  return frequencies;
}

// Llama 3: long wavelengths stretched by the factor, short ones kept, those between blended.
void apply_llama3(const Rope& rope, std::vector<double>& frequencies) {
  const double context = static_cast<double>(rope.original_context);
  const double longest_kept = context / rope.high_frequency_factor;
  const double shortest_stretched = context / rope.low_frequency_factor;
  for (double& frequency : frequencies) {
    const double wavelength = kTwoPi / frequency;
    if (wavelength < longest_kept) continue;
    if (wavelength > shortest_stretched) {
      frequency /= rope.factor;
      continue;
    }
    const double blend = (context / wavelength - rope.low_frequency_factor) /
                         (rope.high_frequency_factor - rope.low_frequency_factor);
    frequency = (1 - blend) * frequency / rope.factor + blend * frequency;
  }
}

// YaRN: pairs that turn often within the original context kept, those that turn seldom stretched, a ramp
// between.
void apply_yarn(const Rope& rope, std::vector<double>& frequencies) {
  const double size = static_cast<double>(rope.rotary_size);
  const auto pair_that_turns = [&](double times) {
    return size * std::log(static_cast<double>(rope.original_context) / (times * kTwoPi)) /
           (2 * std::log(rope.theta));
  };
  double low = pair_that_turns(rope.beta_fast), high = pair_that_turns(rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, size - 1);
  if (low == high) high += 0.001;
  for (size_t n = 0; n < frequencies.size(); ++n) {
    const double stretched = std::clamp((static_cast<double>(n) - low) / (high - low), 0.0, 1.0);
    frequencies[n] *= stretched / rope.factor + (1 - stretched);
  }
}

double yarn_scale(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

}  // namespace

std::vector<double> rotary_frequencies(const Rope& rope, int64_t tokens) {
  double theta = rope.theta;
  if (rope.kind == "dynamic" && tokens > rope.original_context) {
    const double size = static_cast<double>(rope.rotary_size);
    const double growth = static_cast<double>(tokens) / static_cast<double>(rope.original_context);
    theta *= std::pow(rope.factor * growth - (rope.factor - 1), size / (size - 2));
  }
  std::vector<double> frequencies = plain_frequencies(theta, rope.rotary_size);
  if (rope.kind == "linear") {
    for (double& frequency : frequencies) frequency /= rope.factor;
  } else if (rope.kind == "llama3") {
    apply_llama3(rope, frequencies);
  } else if (rope.kind == "yarn") {
    apply_yarn(rope, frequencies);
  }
  for (size_t n = 0; n < std::min(frequencies.size(), rope.frequency_divisors.size()); ++n) {
    frequencies[n] /= static_cast<double>(rope.frequency_divisors[n]);
  }
  return frequencies;
}

double rotary_magnitude(const Rope& rope) {
  if (rope.kind != "yarn") return 1.0;
  if (rope.attention_factor) return *rope.attention_factor;
  if (rope.mscale.value_or(0) != 0 && rope.mscale_all_dim.value_or(0) != 0) {
    return yarn_scale(rope.factor, *rope.mscale) / yarn_scale(rope.factor, *rope.mscale_all_dim);
  }
  return yarn_scale(rope.factor, 1.0);
}

RotaryTable make_rotary_table(const Rope& rope, int64_t first_position, int64_t tokens,
                              const at::TensorOptions& options) {
  const std::vector<double> frequencies = rotary_frequencies(rope, first_position + tokens);
  // float32 angles, as the reference computes them: a longer mantissa would differ at far positions.
  const Tensor by_pair = at::tensor(frequencies, at::kDouble).to(at::kFloat).to(options.device());
  const Tensor positions = at::arange(first_position, first_position + tokens,
                                      at::TensorOptions().dtype(at::kFloat).device(options.device()));
  const Tensor angles = at::outer(positions, by_pair);  // [T, rotary_size / 2]
  const double magnitude = rotary_magnitude(rope);
  return {(angles.cos() * magnitude).to(options.dtype()), (angles.sin() * magnitude).to(options.dtype())};
}

RotaryTable RotaryTables::find(const Rope& rope, int64_t tokens, const at::TensorOptions& options) {
  const std::lock_guard lock(mutex_);
  const auto entry = std::ranges::find_if(entries_, [&](const Entry& made) {
    return made.tokens == tokens && made.options.device() == options.device() &&
           made.options.dtype() == options.dtype();
  });
  if (entry != entries_.end()) return entry->table;
  if (entries_.size() == kMost) entries_.pop_front();
  entries_.push_back({tokens, options, make_rotary_table(rope, 0, tokens, options)});
  return entries_.back().table;
}

Tensor rotate(const Tensor& x, const RotaryTable& table) {
  return rotate_pairs(x, table.cosine, table.sine);
}

}  // namespace openwork
