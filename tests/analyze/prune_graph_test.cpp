// Stored graphs pruned further: what must hold of any graph, on graphs drawn at random.
#include "analyze/trace/prune_graph.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "analyze/trace/influence.h"

namespace openwork {
namespace {

constexpr int64_t kDrawnLayers = 5, kDrawnTokens = 3,
                  kDrawnFeatures = 4;  // features of each layer at each token

// A graph of which nothing was left out, with the influences that tracing finds, and the effects it was found from.
struct Whole {
  TraceGraph graph;
  EffectRows rows;
  std::vector<bool> always;
};

Whole make_whole(unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw;
  Whole whole;
  TraceGraph& graph = whole.graph;
  graph.layers = kDrawnLayers, graph.heads = 2, graph.node_threshold = graph.edge_threshold = 1;
  for (int64_t p = 0; p < kDrawnTokens; ++p) graph.nodes.push_back({.position = p, .feature = p});
  for (int64_t layer = 0; layer < kDrawnLayers; ++layer) {
    for (int64_t p = 0; p < kDrawnTokens; ++p) {
      for (int64_t f = 0; f < kDrawnFeatures; ++f)
        graph.nodes.push_back({.kind = TraceNodeKind::kFeature, .layer = layer, .position = p, .feature = f});
      graph.nodes.push_back({.kind = TraceNodeKind::kError, .layer = layer, .position = p});
    }
  }
  const auto columns = static_cast<int64_t>(graph.nodes.size());
  for (const double probability : {0.5, 0.1})
    graph.nodes.push_back({.kind = TraceNodeKind::kLogit,
                           .layer = kDrawnLayers,
                           .position = kDrawnTokens - 1,
                           .feature = static_cast<int64_t>(graph.nodes.size()),
                           .probability = probability});
  std::vector<Tensor> rows;
  for (int64_t target = 0; target < static_cast<int64_t>(graph.nodes.size()); ++target) {
    const TraceNode& node = graph.nodes[static_cast<size_t>(target)];
    if (target < columns) whole.always.push_back(node.kind == TraceNodeKind::kEmbedding);
    if (node.kind != TraceNodeKind::kFeature && node.kind != TraceNodeKind::kLogit) continue;
    whole.rows.columns.push_back(target < columns ? target : -1);
    whole.rows.levels.push_back(node.layer);
    whole.rows.starts.push_back(node.probability / 0.6);
    rows.push_back(at::zeros({columns}));
    for (int64_t source = 0; source < columns; ++source) {
      const TraceNode& from = graph.nodes[static_cast<size_t>(source)];
      if (from.layer >= node.layer || from.position > node.position) continue;
      const float weight = draw(random) * draw(random) * draw(random);  // few large ones, many small ones
      rows.back()[source] = weight;
      graph.links.push_back({.source = source, .target = target, .weight = weight, .heads = {}});
    }
  }
  whole.rows.weights = at::stack(rows);
  const PrunedEffects all = prune_effects(whole.rows, whole.always, 1, 1);
  for (size_t n = 0; n < all.influence.size(); ++n)
    graph.nodes[n].influence = all.influence[n], graph.nodes[n].cumulative = all.cumulative[n];
  return whole;
}

TraceGraph keep_flagged(const TraceGraph& graph, const GraphPruning& pruning, double nodes, double edges) {
  TraceGraph left = graph;
  left.nodes.clear(), left.links.clear(), left.node_threshold = nodes, left.edge_threshold = edges;
  std::vector<int64_t> place;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    place.push_back(static_cast<int64_t>(left.nodes.size()));
    if (pruning.nodes[n]) left.nodes.push_back(graph.nodes[n]);
  }
  for (size_t n = 0; n < graph.links.size(); ++n) {
    TraceLink link = graph.links[n];
    if (!pruning.links[n]) continue;
    EXPECT_TRUE(pruning.nodes[static_cast<size_t>(link.source)] &&
                pruning.nodes[static_cast<size_t>(link.target)]);
    link.source = place[static_cast<size_t>(link.source)],
    link.target = place[static_cast<size_t>(link.target)];
    left.links.push_back(link);
  }
  return left;
}

int64_t count_true(const std::vector<bool>& flags) {
  return std::count(flags.begin(), flags.end(), true);
}

bool within(const std::vector<bool>& inner, const std::vector<bool>& outer) {
  for (size_t n = 0; n < inner.size(); ++n)
    if (inner[n] && !outer[n]) return false;
  return true;
}

TEST(PruneGraph, LeavesOfAWholeGraphWhatTracingLeaves) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Whole whole = make_whole(seed);
    for (const auto& [nodes, edges] : {std::pair(0.8, 0.98), {0.5, 0.9}, {0.3, 0.6}}) {
      const PrunedEffects traced = prune_effects(whole.rows, whole.always, nodes, edges);
      const GraphPruning pruned = prune_graph(whole.graph, nodes, edges);
      EXPECT_TRUE(std::equal(traced.nodes.begin(), traced.nodes.end(), pruned.nodes.begin())) << seed;
      EXPECT_EQ(traced.links.logical_and(whole.rows.weights != 0).sum().item<int64_t>(),
                count_true(pruned.links));
      EXPECT_TRUE(pruned.nodes.back()) << "targets stay";
      EXPECT_NEAR(pruned.influence_before, 1, 1e-9);
      EXPECT_LT(pruned.influence_after, pruned.influence_before);
    }
  }
}

TEST(PruneGraph, ChangesNothingAtTheGraphsOwnThresholdsOrAbove) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Whole whole = make_whole(seed);
    const GraphPruning first = prune_graph(whole.graph, 0.6, 0.8);
    const TraceGraph stored = keep_flagged(whole.graph, first, 0.6, 0.8);
    ASSERT_LT(stored.links.size(), whole.graph.links.size() / 2);
    for (const auto& [nodes, edges] : {std::pair(0.6, 0.8), {0.9, 0.99}, {1.0, 1.0}}) {
      const GraphPruning again = prune_graph(stored, nodes, edges);
      EXPECT_EQ(count_true(again.nodes), static_cast<int64_t>(stored.nodes.size())) << seed;
      EXPECT_EQ(count_true(again.links), static_cast<int64_t>(stored.links.size())) << seed;
      EXPECT_NEAR(again.influence_after, first.influence_after, 1e-9) << "a share of the trace's";
    }
  }
}

TEST(PruneGraph, TighterIsASubset) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const TraceGraph graph = make_whole(seed).graph;
    GraphPruning wider = prune_graph(graph, 1, 1), looser = wider;
    EXPECT_EQ(count_true(wider.links), static_cast<int64_t>(graph.links.size()));
    for (const double share : {0.9, 0.7, 0.5, 0.3, 0.1}) {
      const GraphPruning narrower = prune_graph(graph, share, 1), tighter = prune_graph(graph, 1, share);
      EXPECT_TRUE(within(narrower.nodes, wider.nodes) && within(narrower.links, wider.links));
      EXPECT_TRUE(within(tighter.nodes, looser.nodes) && within(tighter.links, looser.links));
      EXPECT_LT(count_true(narrower.links), count_true(wider.links));
      EXPECT_LT(count_true(tighter.links), count_true(looser.links));
      wider = narrower, looser = tighter;
    }
  }
}

TEST(PruneGraph, FindsInfluencesThatAFileDoesNotHave) {
  TraceGraph graph = make_whole(3).graph;
  const GraphPruning known = prune_graph(graph, 0.5, 0.8);
  for (TraceNode& node : graph.nodes) node.influence = node.cumulative = 0;
  const GraphPruning found = prune_graph(graph, 0.5, 0.8);
  EXPECT_EQ(found.nodes, known.nodes);
  EXPECT_EQ(found.links, known.links);
  EXPECT_NEAR(found.influence_after, known.influence_after, 1e-6);
}

}  // namespace
}  // namespace openwork
