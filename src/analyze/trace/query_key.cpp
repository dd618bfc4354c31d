// One pattern entry's score as pairs of nodes: Tracer::attribute_score. With norm scales held fixed (and
// clipped numbers where they were), queries and keys are linear in the layer's input:
//   q_i = constant_i + Q_i x_i,   k_j = constant_j + K_j x_j,   x = sum of what the nodes' writings become
//   there c q_i . k_j = sum over pairs (a, b) of c (Q_i x_i^a) . (K_j x_j^b)
// with everything else, biases and nodes that are not in the graph, as one more node on either side.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "analyze/trace/trace_state.h"
#include "base/error.h"
#include "model/head_rows.h"
#include "model/rotary.h"

namespace openwork {
namespace {

constexpr size_t kNodesAtOnce = 128;

// What a second pass over the prompt, up to the layer, shows of it.
struct ScoreRun {
  Tensor input;  // [T, D]: what q and k are projected from
  Tensor q, k;   // [T, heads, d], before they are turned
  Tensor turned_q, turned_k;
  Tensor scores;  // [H, T, T]
};

ScoreRun run_to_scores(const FrozenRun& run, int64_t layer) {
  ScoreRun seen;
  Taps taps;
  const auto keep = [&](Site site, Tensor& place) {
    taps.read({site, layer}, [&place](const Tensor& x) { place = x[0]; });
  };
  const bool rotary = run.config().positions == Positions::kRotary;
  keep(run.config().norm_placement == NormPlacement::kBefore ? Site::kNorm1Normalized : Site::kResidPre,
       seen.input);
  keep(Site::kQuery, seen.q);
  keep(Site::kKey, seen.k);
  keep(rotary ? Site::kRotatedQuery : Site::kQuery, seen.turned_q);
  keep(rotary ? Site::kRotatedKey : Site::kKey, seen.turned_k);
  keep(Site::kScores, seen.scores);
  ForwardOptions options;
  options.taps = &taps;
  run.model.run_layers(run.embedding.unsqueeze(0), 0, layer + 1, options);
  return seen;
}

// One side of a score: how a head's query or key at a token comes of the stream before the layer.
struct Side {
  HeadInput input = HeadInput::kQuery;
  int64_t layer = 0, head = 0, token = 0;  // head: of the query heads, or of the key heads
};

// What parts x [n, D] of the stream add to the query or key, [n, d], turned as its position turns it.
Tensor project_parts(const FrozenRun& run, const ScoreRun& seen, const Side& side, const Tensor& x) {
  const ModelConfig& config = run.config();
  const Layer& weights = run.model.layer(side.layer);
  const Tensor all = head_rows(weights, config, side.input, false);  // [heads, d, D]
  Tensor rows = all[side.head];
  if (config.norm_placement == NormPlacement::kBefore) {
    rows = fold_reading(config, weights.norm1, rows) / run.layer(side.layer).scale[side.token];
  }
  Tensor parts = at::mm(x, rows.t());  // [n, d]
  if (config.qk_norm) {
    Tensor whole = at::mv(all.flatten(0, 1), seen.input[side.token]);
    if (config.qkv_bias) whole = whole + head_rows(weights, config, side.input, true).flatten();
    const Norm& norm = side.input == HeadInput::kQuery ? weights.query_norm : weights.key_norm;
    const Tensor scale = (whole.square().mean() + config.norm_epsilon).sqrt();
    parts = parts * norm.weight.view({-1, config.head_size})[side.head] / scale;
  }
  if (config.clip_qkv) {
    const Tensor& made = side.input == HeadInput::kQuery ? seen.q : seen.k;
    parts = parts * (made[side.token][side.head].abs() < *config.clip_qkv).to(parts.dtype());
  }
  if (config.positions != Positions::kRotary) return parts;
  const RotaryTable table = make_rotary_table(config.rope, 0, run.tokens, parts.options());
  const RotaryTable here{table.cosine.narrow(0, side.token, 1), table.sine.narrow(0, side.token, 1)};
  return rotate(parts.view({-1, 1, 1, config.head_size}), here).view({-1, config.head_size});
}

// What each node's writing has become at a token before the layer: [n, D].
Tensor carry_nodes(const TraceState& state, const std::vector<int64_t>& columns, int64_t layer,
                   int64_t token) {
  std::vector<Tensor> batches;
  for (size_t from = 0; from < columns.size(); from += kNodesAtOnce) {
    const std::vector<int64_t> batch(
        columns.begin() + static_cast<std::ptrdiff_t>(from),
        columns.begin() + static_cast<std::ptrdiff_t>(std::min(from + kNodesAtOnce, columns.size())));
    Tensor here = at::zeros({static_cast<int64_t>(batch.size()), state.run.config().width},
                            state.run.embedding.options());
    state.pass.carry_forward({.sources = state.sources,
                              .columns = batch,
                              .first = 0,
                              .last = token,
                              .end = layer,
                              .visit = [&](int64_t at, const Tensor& x) {
                                if (at == layer) here = x[token].clone();
                              }});
    batches.push_back(here);
  }
  return batches.empty() ? at::zeros({0, state.run.config().width}, state.run.embedding.options())
                         : at::cat(batches);
}

// The graph's nodes that reach a token before a layer.
std::vector<int64_t> find_nodes(const TraceState& state, int64_t layer, int64_t token) {
  std::vector<int64_t> found;
  for (size_t n = 0; n < state.graph->nodes.size(); ++n) {
    const TraceNode& node = state.graph->nodes[n];
    if (node.kind != TraceNodeKind::kLogit && node.layer < layer && node.position <= token)
      found.push_back(static_cast<int64_t>(n));
  }
  return found;
}

// Each node's part of one side, and after them what they leave of the whole: [n + 1, d].
Tensor split_side(const TraceState& state, const ScoreRun& seen, const Side& side,
                  const std::vector<int64_t>& nodes) {
  std::vector<int64_t> columns;
  for (const int64_t node : nodes) columns.push_back(state.graph_columns[static_cast<size_t>(node)]);
  const Tensor parts =
      project_parts(state.run, seen, side, carry_nodes(state, columns, side.layer, side.token));
  const Tensor& whole = side.input == HeadInput::kQuery ? seen.turned_q : seen.turned_k;
  return at::cat({parts, (whole[side.token][side.head] - parts.sum(0)).unsqueeze(0)});
}

// The rows of a table [n + 1, m] that do most, by the sizes of their entries; the last row, the rest, is none of them.
std::vector<int64_t> choose_rows(const Tensor& table, size_t most) {
  const int64_t nodes = table.size(0) - 1;
  const Tensor sizes = table.narrow(0, 0, nodes).abs().sum(1).contiguous();
  std::vector<int64_t> order(static_cast<size_t>(nodes));
  std::iota(order.begin(), order.end(), int64_t{0});
  const double* size = sizes.const_data_ptr<double>();
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return size[a] > size[b]; });
  order.resize(std::min(order.size(), most));
  return order;
}

// The chosen rows, and the sum of all others behind them.
Tensor gather_rows(const Tensor& table, const std::vector<int64_t>& chosen) {
  const Tensor rows = table.index_select(0, at::tensor(chosen, at::kLong));
  return at::cat({rows, (table.sum(0) - rows.sum(0)).unsqueeze(0)});
}

// weights [query nodes + 1, key nodes + 1] as the record's table.
void make_table(const Tensor& weights, const std::vector<int64_t>& query_nodes,
                const std::vector<int64_t>& key_nodes, QueryKeyAttribution& found) {
  const std::vector<int64_t> rows = choose_rows(weights, Tracer::kScoreNodes),
                             columns = choose_rows(weights.t().contiguous(), Tracer::kScoreNodes);
  const Tensor table = gather_rows(gather_rows(weights, rows).t(), columns).t();
  for (const int64_t row : rows) found.queries.push_back(query_nodes[static_cast<size_t>(row)]);
  for (const int64_t column : columns) found.keys.push_back(key_nodes[static_cast<size_t>(column)]);
  found.queries.push_back(-1), found.keys.push_back(-1);
  for (int64_t row = 0; row < table.size(0); ++row) {
    found.weights.emplace_back();
    for (int64_t column = 0; column < table.size(1); ++column)
      found.weights.back().push_back(table[row][column].item<double>());
  }
}

}  // namespace

QueryKeyAttribution Tracer::attribute_score(HeadPlace head, int64_t query, int64_t key, size_t most) {
  const at::NoGradGuard no_grad;
  const ModelConfig& config = state_->run.config();
  if (head.layer < 0 || head.layer >= config.layers || head.head < 0 || head.head >= config.heads) {
    fail_input(fmt::format("no head {}", head.name()), "trace",
               fmt::format("the model has {} layers of {} heads", config.layers, config.heads));
  }
  if (key < 0 || key > query || query >= state_->run.tokens) {
    fail_input(fmt::format("query {} and key {} of {} tokens", query, key, state_->run.tokens), "trace",
               "count tokens from 0; a key is never behind its query");
  }
  find_graph();
  const ScoreRun seen = run_to_scores(state_->run, head.layer);
  const std::vector<int64_t> query_nodes = find_nodes(*state_, head.layer, query),
                             key_nodes = find_nodes(*state_, head.layer, key);
  const Tensor queries =
      split_side(*state_, seen, {HeadInput::kQuery, head.layer, head.head, query}, query_nodes);
  const Tensor keys = split_side(
      *state_, seen, {HeadInput::kKey, head.layer, head.head / config.group_size(), key}, key_nodes);
  const Tensor weights =
      (at::mm(queries, keys.t()) * config.score_scale(head.layer)).to(at::kCPU, at::kDouble).contiguous();

  const double score = seen.scores[head.head][query][key].item<double>();
  QueryKeyAttribution found{head, query, key, score, {}, {}, {}, {}};
  make_table(weights, query_nodes, key_nodes, found);
  const auto pairs = static_cast<size_t>(weights.numel());
  const double* values = weights.const_data_ptr<double>();
  std::vector<size_t> order(pairs);
  std::iota(order.begin(), order.end(), size_t{0});
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(std::min(most, pairs));
  std::partial_sort(order.begin(), end, order.end(), [&](size_t a, size_t b) {
    return std::pair(-std::abs(values[a]), a) < std::pair(-std::abs(values[b]), b);
  });
  const auto node_at = [](const std::vector<int64_t>& nodes, size_t n) {
    return n < nodes.size() ? nodes[n] : -1;
  };
  const size_t width = key_nodes.size() + 1;
  for (auto it = order.begin(); it != end; ++it) {
    found.pairs.push_back({node_at(query_nodes, *it / width), node_at(key_nodes, *it % width), values[*it]});
  }
  return found;
}

}  // namespace openwork
