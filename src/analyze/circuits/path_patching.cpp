// Exact effects of single graph edges (path patching): the destination alone sees the stream with the
// source's part replaced; what it then writes is recomputed, and everything downstream of it. Edges into one
// destination share a pass.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>

#include "analyze/circuits/edge_runner.h"
#include "analyze/circuits/share_rows.h"
#include "model/rotary.h"

namespace openwork {
namespace {

// S copies of [P, ...] one after the other: [S P, ...].
Tensor repeat_runs(const Tensor& x, int64_t runs) {
  std::vector<int64_t> times(static_cast<size_t>(x.dim()), 1);
  times[0] = runs;
  return x.repeat(times);
}

}  // namespace

// The stream after `destination`'s layer when one head's query, key or value sees x + delta: [S P, T, D].
Tensor EdgeRunner::patch_head(int64_t destination, const Tensor& deltas) {
  const ModelConfig& config = model_.config();
  const int64_t layer = graph_.layer_of(destination), slot = graph_.slot_of(destination),
                head = slot % config.heads;
  const auto patched = static_cast<HeadInput>(slot / config.heads);
  const int64_t runs = deltas.size(0), P = deltas.size(1), T = deltas.size(2), d = config.head_size;
  const Tensor x = runner_.recorded(true, Site::kResidPre, layer);
  const auto input = [&](HeadInput which) {
    if (which == patched) {
      const Projection& all = projections_[static_cast<size_t>(layer * 3 + slot / config.heads)];
      const Tensor seen = read_stream(layer, x.unsqueeze(0) + deltas).view({1, runs * P * T, -1});
      Tensor y = apply_projection(all.of_head(head), seen);
      y = y.view({runs * P, T, 1, d});
      const bool turned = config.positions == Positions::kRotary && which != HeadInput::kValue;
      return (turned ? rotate(y, make_rotary_table(config.rope, 0, T, y.options())) : y).transpose(1, 2);
    }
    const bool rotary = config.positions == Positions::kRotary;
    const Site site = which == HeadInput::kQuery ? (rotary ? Site::kRotatedQuery : Site::kQuery)
                      : which == HeadInput::kKey ? (rotary ? Site::kRotatedKey : Site::kKey)
                                                 : Site::kValue;
    const int64_t index = which == HeadInput::kQuery ? head : head / config.group_size();
    return repeat_runs(runner_.recorded(true, site, layer).narrow(2, index, 1), runs).transpose(1, 2);
  };
  const Tensor q = input(HeadInput::kQuery), k = input(HeadInput::kKey),
               v = input(HeadInput::kValue);  // [S P, 1, T, d]
  const auto own = [&](const Tensor& gate) { return gate.defined() ? gate.narrow(0, head, 1) : gate; };
  const Layer& weights = model_.layer(layer);
  const Tensor gathered = attend({q,
                                  k,
                                  v,
                                  own(weights.gate_bias),
                                  own(weights.gate_idle),
                                  config.gate,
                                  config.score_scale(layer),
                                  layer,
                                  {},
                                  nullptr})
                              .z;
  Tensor z = repeat_runs(runner_.recorded(true, Site::kZ, layer), runs);
  z.narrow(2, head, 1).copy_(gathered.transpose(1, 2));
  return model_.finish_layer(repeat_runs(x, runs), z, layer);
}

// Likewise when the layer's MLP sees it.
Tensor EdgeRunner::patch_mlp(int64_t layer, const Tensor& deltas) {
  const int64_t runs = deltas.size(0);
  const Site site = model_.config().parallel_residual ? Site::kResidPre : Site::kResidMid;
  const Tensor seen = runner_.recorded(true, site, layer).unsqueeze(0) + deltas;
  const Tensor out = model_.mlp_output(seen.flatten(0, 1), layer);
  const Tensor change = out - repeat_runs(runner_.recorded(true, Site::kMlpOut, layer), runs);
  return repeat_runs(runner_.recorded(true, Site::kResidPost, layer), runs) + change;
}

// The metrics [S, P] when a destination sees x + delta of each of some sources.
Tensor EdgeRunner::patch_destination(int64_t destination, const std::vector<int64_t>& sources) {
  const int64_t layers = model_.config().layers, layer = graph_.layer_of(destination),
                from = runner_.reader().output_from(), T = runner_.reader().tokens();
  const Tensor deltas = deltas_.index_select(0, at::tensor(sources, deltas_.options().dtype(at::kLong)));
  Tensor x;
  if (destination == graph_.logits()) {
    x = (runner_.recorded(true, Site::kResidPost, layers - 1).unsqueeze(0) + deltas).flatten(0, 1);
  } else {
    x = graph_.slot_of(destination) == 3 * model_.config().heads ? patch_mlp(layer, deltas)
                                                                 : patch_head(destination, deltas);
  }
  ForwardOptions options;
  options.output_from = from;
  const bool more = destination != graph_.logits() && layer + 1 < layers;
  x = more ? model_.run_layers(x, layer + 1, layers, options) : x.narrow(1, from, T - from);
  return runner_.reader().read(x);
}

std::vector<PromptMetrics> EdgeRunner::measure_edges(const std::vector<GraphEdge>& edges,
                                                     const std::function<void(size_t)>& advance) {
  load_deltas();
  const at::NoGradGuard no_grad;
  const int64_t tokens = runner_.reader().prompts() * runner_.reader().tokens();
  const auto pass =
      static_cast<size_t>(std::max<int64_t>(1, (model_.device().is_cpu() ? 4096 : 1 << 18) / tokens));
  std::map<int64_t, std::vector<size_t>> by_destination;
  for (size_t n = 0; n < edges.size(); ++n) by_destination[edges[n].destination].push_back(n);
  std::vector<PromptMetrics> effects(edges.size());
  size_t passes = 0;
  for (const auto& [destination, indices] : by_destination) {
    for (size_t first = 0; first < indices.size(); first += pass) {
      const size_t count = std::min(indices.size() - first, pass);
      if (is_own(runner_.ranks(), passes++)) {
        std::vector<int64_t> sources;
        for (size_t n = 0; n < count; ++n) sources.push_back(edges[indices[first + n]].source);
        const Tensor metrics = patch_destination(destination, sources);
        for (size_t n = 0; n < count; ++n) {
          PromptMetrics& effect = effects[indices[first + n]];
          effect = to_prompt_metrics(metrics[static_cast<int64_t>(n)]);
          for (size_t p = 0; p < effect.size(); ++p) effect[p] = runner_.clean()[p] - effect[p];
        }
      }
      if (advance) advance(count);
    }
  }
  share_rows(runner_.ranks(), effects, runner_.reader().prompts());
  return effects;
}

}  // namespace openwork
