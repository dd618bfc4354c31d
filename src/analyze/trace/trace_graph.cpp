// Phases 4 and 5 of tracing: what pruning leaves of the effects, as nodes and links, and the heads behind
// each link.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "analyze/trace/head_shares.h"
#include "analyze/trace/trace_state.h"
#include "analyze/trace/trace_worth.h"
#include "base/parallel.h"

namespace openwork {
namespace {

// Effects between the nodes that may be in the graph: attributed ones, errors, embeddings, biases.
struct Candidates {
  EffectRows rows;               // on the CPU; columns count as in `sources`
  std::vector<int64_t> sources;  // [N]: columns of TraceSources
};

Candidates reduce(const TraceState& state, const NodeEffects& effects) {
  Candidates reduced{.rows = effects.rows, .sources = state.attributed};
  std::sort(reduced.sources.begin(), reduced.sources.end());
  for (int64_t n = state.sources.attributable(); n < state.sources.columns(); ++n)
    reduced.sources.push_back(n);
  const Tensor index = at::tensor(reduced.sources, at::kLong).to(effects.rows.weights.device());
  reduced.rows.weights = effects.rows.weights.index_select(1, index).to(at::kCPU);
  for (int64_t& column : reduced.rows.columns) {
    if (column >= 0)
      column =
          std::lower_bound(reduced.sources.begin(), reduced.sources.end(), column) - reduced.sources.begin();
  }
  return reduced;
}

class GraphBuilder {
 public:
  GraphBuilder(TraceState& state, const NodeEffects& effects)
      : state_(state), effects_(effects), candidates_(reduce(state, effects)) {
    std::vector<bool> always;
    for (const int64_t column : candidates_.sources)
      always.push_back(state.sources.node(column).kind == TraceNodeKind::kEmbedding);
    pruned_ =
        prune_effects(candidates_.rows, always, state.settings.node_threshold, state.settings.edge_threshold);
  }

  TraceGraph build() {
    graph_.layers = state_.run.config().layers;
    graph_.heads = state_.run.config().heads;
    const Tensor ids = state_.run.ids[0].to(at::kCPU);
    graph_.ids.assign(ids.const_data_ptr<int64_t>(), ids.const_data_ptr<int64_t>() + ids.numel());
    for (const TraceNode& node : state_.sources.nodes())
      graph_.active_features += node.kind == TraceNodeKind::kFeature;
    graph_.nodes_attributed = static_cast<int64_t>(state_.attributed.size());
    graph_.node_threshold = state_.settings.node_threshold;
    graph_.edge_threshold = state_.settings.edge_threshold;
    graph_.sums = effects_.sums;
    if (state_.transcoders != nullptr) score();
    add_nodes();
    add_links();
    share_links();
    return std::move(graph_);
  }

 private:
  void score();
  void add_nodes();
  void add_links();
  void share_links();
  void keep_shares(const Tensor& shares, const std::vector<int64_t>& links, size_t most);

  TraceState& state_;
  const NodeEffects& effects_;
  Candidates candidates_;
  PrunedEffects pruned_;
  TraceGraph graph_;
  std::vector<int64_t> node_of_column_, node_of_row_;  // of Candidates into the graph; -1: not in it
};

void GraphBuilder::score() {
  std::vector<TraceNodeKind> kinds;
  for (const int64_t column : candidates_.sources) kinds.push_back(state_.sources.node(column).kind);
  graph_.worth = score_effects(candidates_.rows, kinds);
  measure_replaced(state_, *graph_.worth);
}

void GraphBuilder::add_nodes() {
  const EffectRows& rows = candidates_.rows;
  std::vector<size_t> order;
  for (size_t n = 0; n < pruned_.nodes.size(); ++n) {
    if (pruned_.nodes[n]) order.push_back(n);
  }
  const auto source = [&](size_t n) -> const TraceNode& {
    return state_.sources.node(candidates_.sources[n]);
  };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(source(a).layer, source(a).position) < std::pair(source(b).layer, source(b).position);
  });
  const float* first = state_.effects_on_first_target().const_data_ptr<float>();
  node_of_column_.assign(pruned_.nodes.size(), -1);
  for (const size_t n : order) {
    node_of_column_[n] = static_cast<int64_t>(graph_.nodes.size());
    TraceNode node = source(n);
    node.influence = pruned_.influence[n];
    node.cumulative = pruned_.cumulative[n];
    if (candidates_.sources[n] >= state_.sources.attributable()) node.value = first[candidates_.sources[n]];
    graph_.nodes.push_back(node);
    state_.graph_columns.push_back(candidates_.sources[n]);
  }
  const Tensor probabilities = at::softmax(state_.run.logits.to(at::kCPU, at::kDouble), 0);
  for (size_t n = 0; n < state_.targets.size(); ++n) {
    const int64_t token = state_.targets[n];
    graph_.nodes.push_back({.kind = TraceNodeKind::kLogit,
                            .layer = graph_.layers,
                            .position = state_.run.tokens - 1,
                            .feature = token,
                            .value = effects_.values[n],
                            .influence = rows.starts[n],
                            .probability = probabilities[token].item<double>()});
    state_.graph_columns.push_back(-1 - static_cast<int64_t>(n));
  }
  const size_t logits = state_.targets.size();
  for (size_t row = 0; row < rows.columns.size(); ++row) {
    const int64_t column = rows.columns[row];
    const int64_t node = column >= 0 ? node_of_column_[static_cast<size_t>(column)]
                                     : static_cast<int64_t>(graph_.nodes.size() - logits + row);
    node_of_row_.push_back(node);
    if (node < 0) continue;
    graph_.nodes[static_cast<size_t>(node)].value = effects_.values[row];
  }
}

void GraphBuilder::add_links() {
  const Tensor places =
      pruned_.links.logical_and(candidates_.rows.weights != 0).nonzero().contiguous();  // [links, 2]
  const int64_t* at = places.const_data_ptr<int64_t>();
  const auto weights = candidates_.rows.weights.accessor<float, 2>();
  for (int64_t n = 0; n < places.size(0); ++n) {
    const int64_t row = at[2 * n], column = at[2 * n + 1];
    graph_.links.push_back({.source = node_of_column_[static_cast<size_t>(column)],
                            .target = node_of_row_[static_cast<size_t>(row)],
                            .weight = weights[row][column],
                            .heads = {}});
  }
  std::stable_sort(graph_.links.begin(), graph_.links.end(), [](const TraceLink& a, const TraceLink& b) {
    return std::pair(a.target, a.source) < std::pair(b.target, b.source);
  });
}

// The heads of every link between two tokens, sources in batches, all targets at once. Indices: `targets` and
// `sources` hold nodes of the graph, targets in order of their tokens (share_by_heads wants that), and
// `place[node]` is a target's index in them; links_of[node] holds the links that leave a source. A batch of
// shares is [layers * heads, targets, batch], source n of it being sources[first + n]: flattened over its
// last two dimensions, the shares of source n's link into target t stand in column t * batch + n.
void GraphBuilder::share_links() {
  const auto moves = [&](const TraceLink& link) {
    return graph_.nodes[static_cast<size_t>(link.source)].position <
           graph_.nodes[static_cast<size_t>(link.target)].position;
  };
  std::vector<int64_t> targets;                                     // nodes
  std::vector<std::vector<int64_t>> links_of(graph_.nodes.size());  // by source
  for (size_t n = 0; n < graph_.links.size(); ++n) {
    if (!moves(graph_.links[n])) continue;
    links_of[static_cast<size_t>(graph_.links[n].source)].push_back(static_cast<int64_t>(n));
    if (targets.empty() || targets.back() != graph_.links[n].target)
      targets.push_back(graph_.links[n].target);
    ++graph_.sums.links;
  }
  if (targets.empty()) return;
  std::stable_sort(targets.begin(), targets.end(), [&](int64_t a, int64_t b) {
    return graph_.nodes[static_cast<size_t>(a)].position < graph_.nodes[static_cast<size_t>(b)].position;
  });
  std::vector<int64_t> target_columns;
  for (const int64_t node : targets)
    target_columns.push_back(state_.graph_columns[static_cast<size_t>(node)]);
  const Targets reading = state_.read_targets(target_columns);
  std::vector<int64_t> place(graph_.nodes.size(), -1), sources, columns;
  for (size_t n = 0; n < targets.size(); ++n)
    place[static_cast<size_t>(targets[n])] = static_cast<int64_t>(n);
  for (size_t node = 0; node < graph_.nodes.size(); ++node) {
    if (links_of[node].empty()) continue;
    sources.push_back(static_cast<int64_t>(node));
    columns.push_back(state_.graph_columns[node]);
  }
  const auto room =
      static_cast<size_t>(kShareRecordBytes / (graph_.sums.links * static_cast<int64_t>(sizeof(HeadShare))));
  share_by_heads(
      {state_.pass, state_.sources, reading, columns, kShareBatchBytes},
      [&](size_t first, const Tensor& shares) {
        const int64_t batch = shares.size(2);
        std::vector<int64_t> links, picks;
        for (int64_t n = 0; n < batch; ++n) {
          for (const int64_t link : links_of[static_cast<size_t>(sources[first + static_cast<size_t>(n)])]) {
            links.push_back(link);
            picks.push_back(
                place[static_cast<size_t>(graph_.links[static_cast<size_t>(link)].target)] * batch + n);
          }
        }
        const Tensor picked =
            shares.flatten(1).index_select(1, at::tensor(picks, at::kLong).to(shares.device()));
        keep_shares(picked.t().contiguous().to(at::kCPU), links, std::max<size_t>(room, 1));
      });
}

// shares [links, layers * heads]: into the links, the largest first.
void GraphBuilder::keep_shares(const Tensor& shares, const std::vector<int64_t>& links, size_t most) {
  const int64_t all = shares.size(1);
  std::vector<double> errors(links.size());
  parallel_for(links.size(), [&](size_t n) {
    TraceLink& link = graph_.links[static_cast<size_t>(links[n])];
    const float* weights = shares.const_data_ptr<float>() + static_cast<int64_t>(n) * all;
    double sum = 0;
    for (int64_t head = 0; head < all; ++head) {
      sum += weights[head];
      if (weights[head] != 0)
        link.heads.push_back({{head / graph_.heads, head % graph_.heads}, weights[head]});
    }
    errors[n] = std::abs(sum - link.weight) / std::max(std::abs(link.weight), 1.0);
    if (!std::isfinite(errors[n])) return;  // they have no order
    std::sort(link.heads.begin(), link.heads.end(), [](const HeadShare& a, const HeadShare& b) {
      return std::pair(-std::abs(a.weight), a.head) < std::pair(-std::abs(b.weight), b.head);
    });
    for (size_t left = most; left < link.heads.size(); ++left) link.other_heads += link.heads[left].weight;
    if (link.heads.size() > most) link.heads.resize(most);
    link.heads.shrink_to_fit();
  });
  for (const double error : errors) {
    if (!std::isfinite(error)) refuse_effects("head shares");
    graph_.sums.heads = std::max(graph_.sums.heads, error);
  }
}

}  // namespace

TraceGraph build_graph(TraceState& state, const NodeEffects& effects) {
  return GraphBuilder(state, effects).build();
}

}  // namespace openwork
