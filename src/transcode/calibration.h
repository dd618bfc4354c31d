// Where training begins, all of it from the activations of the run's first samples:
//   scales     one number per layer for inputs and one for outputs
//   features   each starts at a token: it reads in the direction of that token's input from the mean
//              input, and writes in the direction of its output; encoders are scaled so that what they
//              write fits best
//   skip       where one is trained, the linear map that fits the outputs best; features start from the rest
//   threshold  what leaves k features per token
// Tokens whose outputs are huge beside all others (the first of a text, in many models) get a feature of
// their own in each layer, which writes their mean: learning would take a weight far from 1 there step by
// step.
#pragma once
#include "transcode/mlp_activations.h"
#include "transcode/transcoder_weights.h"

namespace openwork {

// How many times the median's squared length a token may count for in the loss; from how many on it is huge.
inline constexpr double kMostEnergy = 16, kHugeEnergy = 256;

ActivationScales measure_scales(const MlpActivations& activations);

// Scaled to what training computes with, float32 in, the activations' dtype out.
struct ScaledActivations {
  Tensor inputs, outputs;  // [L, N, D]
  Tensor weights;          // [L, N] float32: 1, or less where a token would count for more than kMostEnergy
  Tensor stream;           // [B, T, D] after the last layer, as it is
};
ScaledActivations scale_activations(const MlpActivations& activations, const ActivationScales& scales);

// Fills the parts (float32) and returns the thresholds [L]. `seed` draws the tokens features start at.
Tensor start_features(const TranscoderShape& shape, const ScaledActivations& activations,
                      const ActivationScales& scales, int64_t k, uint64_t seed, const TranscoderParts& parts);

// The threshold that leaves k of F features per token, [L]; features [L, N, F].
Tensor find_thresholds(const Tensor& features, int64_t k);

}  // namespace openwork
