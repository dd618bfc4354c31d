// Transcoders: sparse features in place of MLPs (docs/method.md, 5). The encoder of layer l reads the MLP's
// input, and the features that pass their threshold write to MLP outputs:
//   a_l = W_enc_l x_l + b_enc_l,   f_l = a_l where a_l > threshold_l, else 0                (JumpReLU)
//   per-layer:    m_l = b_dec_l + f_l W_dec_l (+ W_skip_l x_l)
//   cross-layer:  m_l = b_dec_l + sum over k <= l of f_k W_dec_k[:, l - k]
// An active feature's value is its pre-activation, so with the active set held fixed a transcoder is linear.
// x_l is `input` of the config: the residual stream before the MLP (hook_resid_mid) or what the MLP itself
// reads, the normed stream (ln2.hook_normalized, weight and bias of the norm in it); m_l stands in for
// hook_mlp_out.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "model/transformer.h"

namespace openwork {

enum class TranscoderKind { kPerLayer, kCrossLayer };
enum class TranscoderInput { kResidual, kNormed };

struct LayerTranscoder {
  Tensor encoder;       // W_enc [F, D]
  Tensor encoder_bias;  // b_enc [F]
  Tensor threshold;     // [F]; 0 everywhere is a plain ReLU
  Tensor decoder;       // W_dec [F, N, D]: N = 1 per layer, N = layers - l across layers
  Tensor decoder_bias;  // b_dec [D], of this layer's output
  Tensor skip;          // W_skip [D, D], m += x W_skip^T; undefined where there is none

  int64_t features() const { return encoder.size(0); }
};

// All float32, on one device.
struct Transcoders {
  TranscoderKind kind = TranscoderKind::kPerLayer;
  TranscoderInput input = TranscoderInput::kNormed;
  std::vector<LayerTranscoder> layers;
  std::string model;         // the name of the model they were trained on
  std::string model_sha256;  // of its weights; empty where a file does not say (circuit-tracer's own)
  std::string scan;          // what public viewers call this set
};

// The tapped activation that encoder `layer` reads, in a model of this config: hook_resid_mid (hook_resid_pre
// with parallel residuals) or ln2.hook_normalized (hook_resid_mid where norms come after: OLMo-2).
ActivationName transcoder_input(const ModelConfig& config, TranscoderInput input, int64_t layer);

// Features of layer `layer` from its input x [..., D]: pre-activations where active, 0 elsewhere: [..., F].
Tensor encode(const LayerTranscoder& transcoder, const Tensor& x);

// What stands in for every MLP output, from each layer's features [..., F] and inputs [..., D] (inputs matter
// to skips alone): one [..., D] per layer.
std::vector<Tensor> decode(const Transcoders& transcoders, const std::vector<Tensor>& features,
                           const std::vector<Tensor>& inputs);

// The same for one target layer; features and inputs of layers after it are not looked at.
Tensor decode_layer(const Transcoders& transcoders, size_t target, const std::vector<Tensor>& features,
                    const std::vector<Tensor>& inputs);

// Fails in one line where the transcoders are not of this model: layers, width, or the hash where both have
// one.
void check_transcoders_fit(const Transcoders& transcoders, const ModelConfig& config,
                           const std::string& model_sha256, const std::string& where);

}  // namespace openwork
