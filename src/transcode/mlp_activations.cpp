#include "transcode/mlp_activations.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <memory>

namespace openwork {

MlpActivations read_mlp_activations(const Transformer& model, TranscoderInput input, const Tensor& ids) {
  const at::NoGradGuard no_grad;
  const ModelConfig& config = model.config();
  const auto options = at::TensorOptions().dtype(model.dtype()).device(model.device());
  const Tensor empty = at::empty({config.layers, ids.numel(), config.width}, options);
  MlpActivations result{empty, at::empty_like(empty), {}};
  Taps taps;
  const auto keep = [&](ActivationName name, const Tensor& into) {
    taps.read(name, [place = into.select(0, name.layer)](const Tensor& x) { place.copy_(x.flatten(0, 1)); });
  };
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    keep(transcoder_input(config, input, layer), result.inputs);
    keep({Site::kMlpOut, layer}, result.outputs);
  }
  ForwardOptions forward;
  forward.taps = &taps;
  result.stream = model.run_layers(model.embed(ids, forward), 0, config.layers, forward);
  return result;
}

void replace_mlps(Taps& taps, const Transcoders& transcoders, const ModelConfig& config,
                  const ReplacedLayers& which) {
  struct Pass {
    std::vector<Tensor> inputs, features;
  };
  const auto pass = std::make_shared<Pass>();
  pass->inputs.resize(transcoders.layers.size());
  pass->features.resize(transcoders.layers.size());
  const size_t end = which.end < 0 ? transcoders.layers.size() : static_cast<size_t>(which.end);
  const bool cross = transcoders.kind == TranscoderKind::kCrossLayer;  // then lower layers' features are read
  const auto first = static_cast<size_t>(which.first);
  for (size_t n = cross ? 0 : first; n < end; ++n) {
    const auto layer = static_cast<int64_t>(n);
    taps.read(transcoder_input(config, transcoders.input, layer),
              [&transcoders, pass, n, look = which.look](const Tensor& x) {
                pass->inputs[n] = x.to(at::kFloat);
                pass->features[n] = encode(transcoders.layers[n], pass->inputs[n]);
                if (look) look(n, pass->features[n]);
              });
    if (n < first) continue;
    taps.replace({Site::kMlpOut, layer}, [&transcoders, pass, n](const Tensor& out) {
      return decode_layer(transcoders, n, pass->features, pass->inputs).to(out.dtype());
    });
  }
}

void replace_mlps(Taps& taps, const Tensor& outputs) {
  for (int64_t layer = 0; layer < outputs.size(0); ++layer) {
    taps.replace({Site::kMlpOut, layer}, [out = outputs.select(0, layer)](const Tensor& before) {
      return out.to(before.dtype()).expand_as(before);
    });
  }
}

}  // namespace openwork
