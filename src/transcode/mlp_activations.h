// What transcoders learn from and stand in for: every MLP's input and output on a batch of tokens, and what the model
// makes of them in the end.
#pragma once
#include <functional>

#include "transcode/transcoder.h"

namespace openwork {

struct MlpActivations {
  Tensor inputs, outputs;  // [L, N, D], N = B T tokens block by block; in the model's dtype
  Tensor stream;           // [B, T, D] after the last layer
};

// ids [B, T]. Gates of a gated model are hard.
MlpActivations read_mlp_activations(const Transformer& model, TranscoderInput input, const Tensor& ids);

// From now on a pass with these taps has every MLP output replaced by what the transcoders make of that
// pass's own inputs: the replacement model. Both must outlive the taps.
struct ReplacedLayers {
  int64_t first = 0, end = -1;  // layers [first, end) are replaced, the others' MLPs left; -1: to the last
  std::function<void(size_t layer, const Tensor& features)> look = nullptr;  // is shown features [B, T, F]
};
void replace_mlps(Taps& taps, const Transcoders& transcoders, const ModelConfig& config,
                  const ReplacedLayers& which = {});

// The same for a fixed output per layer, [L, D].
void replace_mlps(Taps& taps, const Tensor& outputs);

}  // namespace openwork
