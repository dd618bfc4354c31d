#include "analyze/trace/answer_effects.h"

#include <ATen/ATen.h>

#include "analyze/trace/trace_state.h"

namespace openwork {
namespace {

// The transcoders of a run with their active features held, backward: from directions into MLP outputs to directions
// into the streams that encoders read. Layers come from above, as carry_back asks for them.
class FeaturePull {
 public:
  FeaturePull(const FrozenRun& run, const Transcoders& transcoders)
      : run_(run), transcoders_(transcoders), outputs_(run.layers.size()) {}

  // g [P, n, D] into the output of `layer` -> [P, n, D] into what its encoder reads.
  Tensor operator()(int64_t layer, const Tensor& g) {
    outputs_[static_cast<size_t>(layer)] = g.clone();
    const LayerTranscoder& transcoder = transcoders_.layers[static_cast<size_t>(layer)];
    const FrozenLayer& frozen = run_.layer(layer);
    Tensor into;  // [P, n, F]: directions into the features, from every output that they write to
    for (int64_t k = 0; k < transcoder.decoder.size(1); ++k) {
      const Tensor& output = outputs_[static_cast<size_t>(layer + k)];
      if (!output.defined()) continue;
      const Tensor read = at::matmul(output, transcoder.decoder.select(1, k).t());
      into = into.defined() ? into + read : read;
    }
    const Tensor active = (encode(transcoder, frozen.mlp_in) != 0).to(g.dtype());  // [T, F]
    into = at::matmul(into * active.narrow(0, 0, g.size(0)).unsqueeze(1), transcoder.encoder);
    const bool normed = transcoders_.input == TranscoderInput::kNormed &&
                        run_.config().norm_placement == NormPlacement::kBefore;
    if (!normed) return into;
    const Tensor scale = frozen.mlp_scale.narrow(0, 0, g.size(0)).unsqueeze(1);  // [P, 1, 1]
    return fold_reading(run_.config(), run_.model.layer(layer).norm2, into) / scale;
  }

 private:
  const FrozenRun& run_;
  const Transcoders& transcoders_;
  std::vector<Tensor> outputs_;
};

LinearPass::Pull pull_through_nodes(const TraceState& state) {
  if (state.transcoders != nullptr) return FeaturePull(state.run, *state.transcoders);
  return [&run = state.run](int64_t layer, const Tensor& g) { return pull_mlp(run, layer, g); };
}

// Of one layer, from the direction g [T, 1, D] behind its attention: [H].
Tensor read_heads_of(const FrozenRun& run, int64_t layer, const Tensor& g) {
  const FrozenLayer& frozen = run.layer(layer);
  const bool before = run.config().norm_placement == NormPlacement::kBefore;
  const Tensor z = before ? frozen.z : frozen.z / frozen.scale.unsqueeze(1);  // [T, H, d]
  const Tensor read = at::mm(g.squeeze(1), frozen.output).view_as(z);
  return (read * z).sum(at::IntArrayRef{0, 2}, false, at::kDouble).to(at::kCPU);
}

}  // namespace

AnswerEffects find_answer_effects(const TraceState& state, EffectPaths paths) {
  const ModelConfig& config = state.run.config();
  const Targets target = state.reader.logits({state.targets.front()});
  const auto through = [&] {
    return paths == EffectPaths::kTotal ? pull_through_nodes(state) : LinearPass::Pull();
  };
  AnswerEffects found{
      find_effects(state.pass, state.sources, target, through())[0].to(at::kCPU, at::kDouble).contiguous(),
      at::zeros({config.layers, config.heads}, at::kDouble)};
  state.pass.carry_back(
      target,
      [&](StreamPoint point, int64_t layer, const Tensor& g) {
        if (point == StreamPoint::kMiddle) found.heads[layer].copy_(read_heads_of(state.run, layer, g));
      },
      through());
  return found;
}

}  // namespace openwork
