// For tests of tracing: transcoders of random numbers, prompts of made-up ids, settings that leave nothing
// out.
#pragma once
#include <ATen/ATen.h>

#include "analyze/trace/trace.h"
#include "analyze/trace/traced_model.h"
#include "model/load.h"

namespace openwork {

// What the random transcoders are like.
struct RandomShape {
  TranscoderKind kind = TranscoderKind::kPerLayer;
  TranscoderInput input = TranscoderInput::kNormed;
  bool skip = false;
  int64_t features = 24;
  double threshold = 0.3;
};

// Biases everywhere, and decoders large enough to matter.
inline Transcoders random_transcoders(const ModelConfig& config, const RandomShape& shape = {}) {
  at::Generator generator = at::detail::createCPUGenerator(11);
  const auto draw = [&](at::IntArrayRef sizes, double scale) { return scale * at::randn(sizes, generator); };
  const int64_t D = config.width, F = shape.features;
  Transcoders made;
  made.kind = shape.kind;
  made.input = shape.input;
  for (int64_t l = 0; l < config.layers; ++l) {
    const int64_t outputs = shape.kind == TranscoderKind::kCrossLayer ? config.layers - l : 1;
    LayerTranscoder layer;
    layer.encoder = draw({F, D}, 1 / std::sqrt(static_cast<double>(D)));
    layer.encoder_bias = draw({F}, 0.1);
    layer.threshold = at::full({F}, shape.threshold);
    layer.decoder = draw({F, outputs, D}, 0.1);
    layer.decoder_bias = draw({D}, 0.1);
    if (shape.skip) layer.skip = draw({D, D}, 0.1 / std::sqrt(static_cast<double>(D)));
    made.layers.push_back(layer);
  }
  return made;
}

// The tiny GPT-2 of tests/data with such transcoders.
inline TracedModel tiny_traced(const RandomShape& shape = {}) {
  TracedModel traced{.name = "tiny",
                     .title = "tiny",
                     .model = load_model("tests/data/gpt2"),
                     .transcoders = {},
                     .files = {},
                     .descriptions = {},
                     .tokenizer = {},
                     .beginning = {}};
  traced.transcoders = random_transcoders(traced.model.config(), shape);
  return traced;
}

inline Tensor made_up_ids(int64_t vocabulary, int64_t tokens) {
  const Tensor n = at::arange(tokens, at::kLong);
  return (3 + 31 * n + n * n) % vocabulary;
}

inline TraceSettings keep_everything(int64_t max_nodes = 1000) {
  TraceSettings settings;
  settings.max_nodes = max_nodes;
  settings.node_threshold = settings.edge_threshold = 1;
  return settings;
}

}  // namespace openwork
