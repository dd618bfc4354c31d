// The transcoders of all layers as training has them: stacked over layers, so that one batched product serves
// them all, every trained number in one flat float32 buffer (the master), and inputs and outputs divided by
// one scale per layer. The flat buffer, its gradient and the optimiser's moments share one layout:
//   [ encoders L F D | decoders P F D | encoder biases L F | decoder biases L D | skips L D D, where trained ]
// P decoders: one per layer, or across layers one for each target t and source k <= t, at t (t + 1) / 2 + k.
#pragma once
#include <ATen/core/Tensor.h>

#include "transcode/transcoder.h"

namespace openwork {

struct TranscoderShape {
  TranscoderKind kind = TranscoderKind::kPerLayer;
  int64_t layers = 0, features = 0, width = 0;
  bool skip = false;  // a linear path from input to output beside the features; per layer alone

  int64_t decoders() const { return kind == TranscoderKind::kPerLayer ? layers : layers * (layers + 1) / 2; }
  int64_t numbers() const {
    return ((layers + decoders()) * width + layers) * features + layers * width * (skip ? 1 + width : 1);
  }
};

// Views of a flat buffer.
struct TranscoderParts {
  Tensor encoder;       // [L, F, D]
  Tensor decoder;       // [P, F, D]
  Tensor encoder_bias;  // [L, F]
  Tensor decoder_bias;  // [L, D]
  Tensor skip;          // [L, D, D], out by in; undefined where none is trained
};
TranscoderParts split_parts(const TranscoderShape& shape, const Tensor& flat);

// What activations are divided by, and what the loss is measured in. All float32.
struct ActivationScales {
  Tensor input, output;  // [L]: the root of the median over tokens of the mean square, so that a few tokens
                         // with huge activations (the first of a text, in many models) do not set it
  Tensor mean;           // [L, D] of scaled outputs, each token at its weight
  Tensor energy;         // [L] median over tokens of the scaled outputs' squared distance to the mean
  Tensor variance;       // [L] mean over tokens of the same, each token at its weight
};

// Features of several layers back to outputs and gradients back to features; `decoder` [P, F, D].
Tensor decode_all(const TranscoderShape& shape, const Tensor& decoder, const Tensor& features);  // [L, N, D]
Tensor carry_back(const TranscoderShape& shape, const Tensor& decoder, const Tensor& gradient);  // [L, N, F]
// Adds features^T gradient to `into` [P, F, D], features [L, N, F], gradient [L, N, D].
void add_decoder_gradient(const TranscoderShape& shape, const Tensor& features, const Tensor& gradient,
                          const Tensor& into);

// Every feature's decoders, all targets together, to length 1.
void normalise_decoders(const TranscoderShape& shape, const Tensor& decoder);

// In the model's own units, scales folded in: a feature's value is then the length of what it writes to its
// own layer (per layer). On the CPU. threshold [L].
std::vector<LayerTranscoder> fold_scales(const TranscoderShape& shape, const TranscoderParts& parts,
                                         const Tensor& threshold, const ActivationScales& scales);

// The way back: fills the parts from saved transcoders of this shape and returns their thresholds [L], each
// layer's the mean of its features'. A skip that the layers have not begins at 0.
Tensor unfold_scales(const TranscoderShape& shape, const std::vector<LayerTranscoder>& layers,
                     const ActivationScales& scales, const TranscoderParts& parts);

}  // namespace openwork
