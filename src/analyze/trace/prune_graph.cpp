#include "analyze/trace/prune_graph.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "analyze/trace/influence.h"
#include "base/error.h"

namespace openwork {
namespace {

constexpr int64_t kMostEffects = int64_t{1} << 28;  // cells of the matrix below: 1 GiB

// A graph as tracing had it: rows are the nodes that effects were found on, columns all but the targets.
struct GraphEffects {
  EffectRows rows;
  std::vector<size_t> nodes;                         // [N]: of the graph, by column
  std::vector<int64_t> row_of_node, column_of_node;  // -1: none
};

bool is_row(const TraceNode& node) {
  return node.kind == TraceNodeKind::kFeature || node.kind == TraceNodeKind::kMlp ||
         node.kind == TraceNodeKind::kLogit;
}

GraphEffects list_rows(const TraceGraph& graph) {
  GraphEffects effects;
  double probability = 0;
  int64_t targets = 0;
  for (const TraceNode& node : graph.nodes) {
    if (node.kind == TraceNodeKind::kLogit) probability += node.probability, ++targets;
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const TraceNode& node = graph.nodes[n];
    const bool target = node.kind == TraceNodeKind::kLogit;
    effects.column_of_node.push_back(target ? -1 : static_cast<int64_t>(effects.nodes.size()));
    if (!target) effects.nodes.push_back(n);
    effects.row_of_node.push_back(is_row(node) ? static_cast<int64_t>(effects.rows.columns.size()) : -1);
    if (!is_row(node)) continue;
    effects.rows.columns.push_back(effects.column_of_node.back());
    effects.rows.levels.push_back(node.layer);
    effects.rows.starts.push_back(!target           ? 0
                                  : probability > 0 ? node.probability / probability
                                                    : 1.0 / static_cast<double>(targets));
  }
  return effects;
}

GraphEffects gather_effects(const TraceGraph& graph) {
  GraphEffects effects = list_rows(graph);
  const auto rows = static_cast<int64_t>(effects.rows.columns.size()),
             columns = static_cast<int64_t>(effects.nodes.size());
  if (columns > 0 && rows > kMostEffects / columns)
    fail_input(fmt::format("{} nodes are too many to be pruned", graph.nodes.size()), "graph",
               "trace again with --node-threshold");
  effects.rows.weights = at::zeros({rows, columns});
  auto weights = effects.rows.weights.accessor<float, 2>();
  for (const TraceLink& link : graph.links) {
    weights[effects.row_of_node[static_cast<size_t>(link.target)]]
           [effects.column_of_node[static_cast<size_t>(link.source)]] += static_cast<float>(link.weight);
  }
  return effects;
}

struct Influences {
  std::vector<double> own, cumulative;  // by column, as TraceNode has them
  double all = 0;                       // of the whole trace, nodes that are not in the graph with them
};

Influences take_influences(const TraceGraph& graph, const GraphEffects& effects,
                           const std::vector<bool>& always) {
  Influences found;
  for (const size_t n : effects.nodes) {
    found.own.push_back(graph.nodes[n].influence);
    found.cumulative.push_back(graph.nodes[n].cumulative);
  }
  if (std::all_of(found.own.begin(), found.own.end(), [](double own) { return own == 0; })) {
    PrunedEffects whole = prune_effects(effects.rows, always, 1, 1);
    found.own = std::move(whole.influence), found.cumulative = std::move(whole.cumulative);
  }
  // The first node's share is its own influence by all of it; any other node's is larger than that.
  for (size_t n = 0; n < found.own.size(); ++n) {
    if (found.cumulative[n] > 0) found.all = std::max(found.all, found.own[n] / found.cumulative[n]);
  }
  return found;
}

// The smallest influence of the nodes that, largest first, make up `share` of all.
double least_influence(const Influences& influences, double share) {
  double least = std::numeric_limits<double>::infinity();
  for (size_t n = 0; n < influences.own.size(); ++n) {
    const double before = influences.cumulative[n] - influences.own[n] / influences.all;
    if (influences.all > 0 && before < share) least = std::min(least, influences.own[n]);
  }
  return least;
}

double sum_shares(const Influences& influences, const std::vector<bool>& nodes) {
  double sum = 0;
  for (size_t n = 0; n < nodes.size(); ++n) sum += nodes[n] ? influences.own[n] : 0;
  return influences.all > 0 ? sum / influences.all : 0;
}

}  // namespace

GraphPruning prune_graph(const TraceGraph& graph, double node_threshold, double edge_threshold) {
  const GraphEffects effects = gather_effects(graph);
  std::vector<bool> always, chosen;
  for (const size_t n : effects.nodes) always.push_back(graph.nodes[n].kind == TraceNodeKind::kEmbedding);
  const Influences influences = take_influences(graph, effects, always);
  const double least = node_threshold < graph.node_threshold ? least_influence(influences, node_threshold)
                                                             : -std::numeric_limits<double>::infinity();
  for (size_t n = 0; n < always.size(); ++n) chosen.push_back(always[n] || influences.own[n] >= least);
  const PrunedLinks pruned =
      prune_links(effects.rows, chosen, always, std::min(1.0, edge_threshold / graph.edge_threshold));

  GraphPruning kept;
  kept.influence_before = sum_shares(influences, std::vector<bool>(always.size(), true));
  kept.influence_after = sum_shares(influences, pruned.nodes);
  for (const int64_t column : effects.column_of_node)
    kept.nodes.push_back(column < 0 || pruned.nodes[static_cast<size_t>(column)]);
  const auto links = pruned.links.accessor<bool, 2>();
  for (const TraceLink& link : graph.links)
    kept.links.push_back(links[effects.row_of_node[static_cast<size_t>(link.target)]]
                              [effects.column_of_node[static_cast<size_t>(link.source)]]);
  return kept;
}

}  // namespace openwork
