// A node or head set to so many times what it was, and what becomes of the first target's logit:
// Tracer::intervene. The model itself is run again, by taps: once with patterns, norm scales and all other
// nodes held as they were, which the graph's direct effect must predict, and once with everything free to
// follow.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <optional>

#include "analyze/trace/trace_state.h"
#include "base/error.h"
#include "model/head_rows.h"

namespace openwork {
namespace {

// What the intervention adds to the stream, and where; or the head whose z is multiplied.
struct Change {
  Tensor embedding;             // [T, D]; undefined: none
  std::vector<Tensor> outputs;  // per layer [T, D], added to MLP outputs; undefined: none
  std::optional<HeadPlace> head;
  double factor = 1;
};

// The head a name means; none where it is no head's.
std::optional<HeadPlace> find_head(const std::string& name, const ModelConfig& config) {
  const std::optional<HeadPlace> head = parse_head_place(name);
  if (!head || (head->layer < config.layers && head->head < config.heads)) return head;
  fail_input(fmt::format("no head {}", head->name()), "trace",
             fmt::format("the model has {} layers of {} heads", config.layers, config.heads));
}

Change change_source(const TraceState& state, int64_t column, double factor) {
  const FrozenRun& run = state.run;
  Change change;
  change.outputs.resize(run.layers.size());
  // A column's row in the pieces of one place, as it stands at its token.
  const auto add = [&](StreamPoint point, int64_t layer, Tensor& place) {
    for (const SourcePiece& piece : state.sources.pieces_at(point, layer)) {
      const int64_t local = column - piece.first;
      if (local < 0 || local >= piece.count()) continue;
      if (!place.defined()) place = at::zeros_like(run.embedding);
      const Tensor index = at::tensor({local}, at::kLong).to(run.ids.device());
      place.index_add_(0, piece.positions.index_select(0, index), piece.rows_of(index) * (factor - 1));
    }
  };
  add(StreamPoint::kStart, -1, change.embedding);
  for (int64_t l = 0; l < run.config().layers; ++l)
    add(StreamPoint::kOutput, l, change.outputs[static_cast<size_t>(l)]);
  return change;
}

void add_change(const Change& change, int64_t layers, Taps& taps) {
  if (change.embedding.defined()) {
    taps.replace({Site::kEmbed, -1}, [&change](const Tensor& x) { return x + change.embedding; });
  }
  for (int64_t l = 0; l < layers && !change.outputs.empty(); ++l) {
    const Tensor& more = change.outputs[static_cast<size_t>(l)];
    if (more.defined()) taps.replace({Site::kMlpOut, l}, [&more](const Tensor& x) { return x + more; });
  }
  if (change.head) {
    taps.replace({Site::kZ, change.head->layer}, [&change](const Tensor& z) {
      Tensor changed = z.clone();
      changed.select(2, change.head->head).mul_(change.factor);
      return changed;
    });
  }
}

// What a layer reads on the way, for those who compute anew what follows from it.
struct Inputs {
  Tensor attention, mlp;  // [1, T, D]
};

// Values are linear in the layer's input where they were not clipped, and stay where they were.
void hold_clipping(const FrozenRun& run, int64_t layer, Tensor& input, Taps& taps) {
  const bool before = run.config().norm_placement == NormPlacement::kBefore;
  taps.read({before ? Site::kNorm1Normalized : Site::kResidPre, layer},
            [&input](const Tensor& x) { input = x; });
  taps.replace({Site::kValue, layer}, [&run, &input, layer](const Tensor& v) {
    const Layer& weights = run.model.layer(layer);
    Tensor free =
        at::matmul(input, head_rows(weights, run.config(), HeadInput::kValue, false).flatten(0, 1).t());
    if (run.config().qkv_bias)
      free = free + head_rows(weights, run.config(), HeadInput::kValue, true).flatten();
    const FrozenLayer& frozen = run.layer(layer);
    return (free * frozen.kept + frozen.clipped).view_as(v);
  });
}

// Holds patterns, norm scales and what MLPs write (but for what a skip makes of its input).
void freeze(const TraceState& state, std::vector<Inputs>& inputs, Taps& taps) {
  const FrozenRun& run = state.run;
  inputs.resize(run.layers.size());
  for (int64_t l = 0; l < run.config().layers; ++l) {
    const FrozenLayer& layer = run.layer(l);
    taps.replace({Site::kNorm1Scale, l}, [&layer](const Tensor&) { return layer.scale.unsqueeze(0); });
    taps.replace({Site::kPattern, l}, [&layer](const Tensor&) { return layer.pattern.unsqueeze(0); });
    if (run.config().norm_placement == NormPlacement::kBefore) {
      taps.replace({Site::kNorm2Scale, l}, [&layer](const Tensor&) { return layer.mlp_scale.unsqueeze(0); });
    }
    Tensor& input = inputs[static_cast<size_t>(l)].mlp;
    if (run.config().clip_qkv) hold_clipping(run, l, inputs[static_cast<size_t>(l)].attention, taps);
    const Tensor skip =
        state.transcoders != nullptr ? state.transcoders->layers[static_cast<size_t>(l)].skip : Tensor();
    if (skip.defined()) {
      taps.read(transcoder_input(run.config(), state.transcoders->input, l),
                [&input](const Tensor& x) { input = x; });
    }
    taps.replace({Site::kMlpOut, l}, [&layer, &input, skip](const Tensor&) {
      const Tensor held = layer.mlp_out.unsqueeze(0);
      return skip.defined() ? held + at::matmul(input - layer.mlp_in, skip.t()) : held;
    });
  }
  taps.replace({Site::kFinalScale, -1},
               [&run](const Tensor& scale) { return run.final_scale.view_as(scale); });
}

double read_logit(const TraceState& state, const Taps& taps) {
  ForwardOptions options;
  options.taps = &taps;
  options.last_only = true;
  return state.run.model.forward(state.run.ids, options).flatten()[state.targets.front()].item<double>();
}

// All that a head writes, by every way to the first target that does not pass through an MLP.
double read_head(const TraceState& state, HeadPlace head) {
  const FrozenRun& run = state.run;
  const int64_t d = run.config().head_size;
  const bool before = run.config().norm_placement == NormPlacement::kBefore;
  double sum = 0;
  state.pass.carry_back(
      state.reader.logits({state.targets.front()}), [&](StreamPoint point, int64_t layer, const Tensor& g) {
        if (point != StreamPoint::kMiddle || layer != head.layer) return;
        Tensor z = run.layer(layer).z.select(1, head.head);  // [T, d]
        if (!before) z = z / run.layer(layer).scale;
        sum = (at::mm(g.squeeze(1), run.layer(layer).output.narrow(1, head.head * d, d)) * z)
                  .sum(at::kDouble)
                  .item<double>();
      });
  return sum;
}

}  // namespace

TraceIntervention Tracer::intervene(const std::string& node, double factor) {
  const at::NoGradGuard no_grad;
  TraceState& state = *state_;
  TraceIntervention found{.node = node, .factor = factor};
  Change change;
  if (const auto head = find_head(node, state.run.config())) {
    change.head = head;
    change.factor = factor;
    found.predicted = (factor - 1) * read_head(state, *head);
  } else {
    const int64_t column = state.sources.find(node);
    if (state.sources.node(column).kind == TraceNodeKind::kBias) {
      fail_input(fmt::format("{} is a bias", node), "trace",
                 "change a feature, an MLP, an error, an embedding or a head");
    }
    change = change_source(state, column, factor);
    found.predicted = (factor - 1) * state.effects_on_first_target()[column].item<double>();
  }
  std::vector<Inputs> inputs;
  Taps frozen, free;
  freeze(state, inputs, frozen);
  add_change(change, state.run.config().layers, frozen);
  add_change(change, state.run.config().layers, free);
  found.frozen = read_logit(state, frozen) - state.run.logits[state.targets.front()].item<double>();
  found.measured = read_logit(state, free) - read_logit(state, Taps{});
  return found;
}

}  // namespace openwork
