#include "transcode/transcoder.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "base/error.h"

namespace openwork {

ActivationName transcoder_input(const ModelConfig& config, TranscoderInput input, int64_t layer) {
  const bool norm_before = config.norm_placement == NormPlacement::kBefore;
  if (input == TranscoderInput::kNormed && norm_before) return {Site::kNorm2Normalized, layer};
  return {config.parallel_residual ? Site::kResidPre : Site::kResidMid, layer};
}

Tensor encode(const LayerTranscoder& transcoder, const Tensor& x) {
  const Tensor before = at::linear(x, transcoder.encoder, transcoder.encoder_bias);  // [..., F]
  return at::where(before > transcoder.threshold, before, at::zeros({}, before.options()));
}

Tensor decode_layer(const Transcoders& transcoders, size_t target, const std::vector<Tensor>& features,
                    const std::vector<Tensor>& inputs) {
  const LayerTranscoder& own = transcoders.layers[target];
  Tensor out = own.decoder_bias;
  const size_t first = transcoders.kind == TranscoderKind::kCrossLayer ? 0 : target;
  for (size_t source = first; source <= target; ++source) {
    const Tensor& decoder = transcoders.layers[source].decoder;
    out = out + at::matmul(features.at(source), decoder.select(1, static_cast<int64_t>(target - source)));
  }
  return own.skip.defined() ? out + at::matmul(inputs.at(target), own.skip.t()) : out;
}

std::vector<Tensor> decode(const Transcoders& transcoders, const std::vector<Tensor>& features,
                           const std::vector<Tensor>& inputs) {
  std::vector<Tensor> outputs;
  for (size_t target = 0; target < transcoders.layers.size(); ++target) {
    outputs.push_back(decode_layer(transcoders, target, features, inputs));
  }
  return outputs;
}

void check_transcoders_fit(const Transcoders& transcoders, const ModelConfig& config,
                           const std::string& model_sha256, const std::string& where) {
  const std::string advice =
      transcoders.model.empty()
          ? "use transcoders of this model"
          : fmt::format("they are of {}: use transcoders of this model", printable(transcoders.model, 80));
  if (static_cast<int64_t>(transcoders.layers.size()) != config.layers) {
    fail_input(fmt::format("transcoders of {} layers, but the model has {}", transcoders.layers.size(),
                           config.layers),
               where, advice);
  }
  for (const LayerTranscoder& layer : transcoders.layers) {
    if (layer.encoder.size(1) == config.width) continue;
    fail_input(
        fmt::format("transcoders of width {}, but the model's is {}", layer.encoder.size(1), config.width),
        where, advice);
  }
  // A pruned model has the MLPs of the one it was made from.
  const bool of_source =
      config.source.is_object() && transcoders.model_sha256 == config.source.value("source_sha256", "");
  if (!transcoders.model_sha256.empty() && !model_sha256.empty() &&
      transcoders.model_sha256 != model_sha256 && !of_source) {
    fail_input(fmt::format("transcoders of another model (its weights have sha256 {}..., these {}...)",
                           printable(transcoders.model_sha256.substr(0, 12)), model_sha256.substr(0, 12)),
               where, advice);
  }
}

}  // namespace openwork
