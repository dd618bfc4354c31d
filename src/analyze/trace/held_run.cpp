#include "analyze/trace/held_run.h"

#include <ATen/ATen.h>

#include <memory>

#include "model/head_rows.h"

namespace openwork {
namespace {

void hold_site(Taps& taps, ActivationName name, const Tensor& was) {
  taps.replace(name, [&was](const Tensor& x) { return was.expand_as(x); });
}

// Values are linear in the layer's input where they were not clipped, and stay where they were.
void hold_clipping(const FrozenRun& run, int64_t layer, Taps& taps) {
  const bool before = run.config().norm_placement == NormPlacement::kBefore;
  const auto input = std::make_shared<Tensor>();
  taps.read({before ? Site::kNorm1Normalized : Site::kResidPre, layer},
            [input](const Tensor& x) { *input = x; });
  taps.replace({Site::kValue, layer}, [&run, input, layer](const Tensor& v) {
    const Layer& weights = run.model.layer(layer);
    Tensor free =
        at::matmul(*input, head_rows(weights, run.config(), HeadInput::kValue, false).flatten(0, 1).t());
    if (run.config().qkv_bias)
      free = free + head_rows(weights, run.config(), HeadInput::kValue, true).flatten();
    const FrozenLayer& frozen = run.layer(layer);
    return (free * frozen.kept + frozen.clipped).view_as(v);
  });
}

// How far a pass is from the prompt's own, layer by layer as it goes.
struct Differences {
  std::vector<Tensor> inputs, features;  // [B, T, D], [B, T, F]
};

// MLPs write what they wrote, and what transcoders make of the difference of their inputs: errors stay.
void follow_features(const TraceState& state, const Held& held, Taps& taps) {
  const Transcoders& transcoders = *state.transcoders;
  const auto pass = std::make_shared<Differences>();
  pass->inputs.resize(transcoders.layers.size());
  pass->features.resize(transcoders.layers.size());
  for (size_t n = 0; n < transcoders.layers.size(); ++n) {
    const auto layer = static_cast<int64_t>(n);
    const FrozenLayer& frozen = state.run.layer(layer);
    taps.read(transcoder_input(state.run.config(), transcoders.input, layer),
              [&transcoder = transcoders.layers[n], &frozen, pass, held, n](const Tensor& x) {
                const Tensor was = encode(transcoder, frozen.mlp_in);  // [T, F]
                Tensor& input = pass->inputs[n] = x - frozen.mlp_in;
                pass->features[n] = held.nodes ? at::zeros_like(was)
                                    : held[Following::kFeatures]
                                        ? at::matmul(input, transcoder.encoder.t()) * (was != 0)
                                        : encode(transcoder, x) - was;
              });
    taps.replace({Site::kMlpOut, layer}, [&transcoders, &frozen, pass, n](const Tensor& x) {
      const Tensor moved = decode_layer(transcoders, n, pass->features, pass->inputs);
      return (frozen.mlp_out + moved - transcoders.layers[n].decoder_bias).expand_as(x);
    });
  }
}

// MLPs as nodes: held whole, or linear with the slopes that the prompt gave them.
void hold_mlp(const FrozenRun& run, int64_t layer, bool whole, Taps& taps) {
  const FrozenLayer& frozen = run.layer(layer);
  if (whole) {
    taps.replace({Site::kMlpOut, layer}, [&frozen](const Tensor& x) { return frozen.mlp_out.expand_as(x); });
    return;
  }
  const auto linear = std::make_shared<Tensor>();
  taps.read({run.config().gated_mlp ? Site::kMlpPreLinear : Site::kMlpPre, layer},
            [linear](const Tensor& x) { *linear = x; });
  taps.replace({Site::kMlpPost, layer},
               [&frozen, linear](const Tensor&) { return *linear * frozen.mlp_slope; });
}

}  // namespace

void hold(const TraceState& state, const Held& held, Taps& taps) {
  const FrozenRun& run = state.run;
  for (int64_t l = 0; l < run.config().layers; ++l) {
    const FrozenLayer& layer = run.layer(l);
    if (held[Following::kNorms]) {
      hold_site(taps, {Site::kNorm1Scale, l}, layer.scale);
      hold_site(taps, {Site::kNorm2Scale, l}, layer.mlp_scale);
    }
    if (held[Following::kPatterns]) hold_site(taps, {Site::kPattern, l}, layer.pattern);
    if (held[Following::kFeatures] && run.config().clip_qkv) hold_clipping(run, l, taps);
    if (state.transcoders == nullptr && held[Following::kFeatures]) hold_mlp(run, l, held.nodes, taps);
  }
  if (state.transcoders != nullptr && held.replaced) follow_features(state, held, taps);
  if (held[Following::kFinalNorm]) hold_site(taps, {Site::kFinalScale, -1}, run.final_scale);
}

}  // namespace openwork
