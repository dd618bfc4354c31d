// Supernodes of graphs made by hand: who belongs together, and what a group is called.
#include "analyze/trace/supernodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace openwork {
namespace {

using testing::ElementsAre;

// Two tokens, four layers. Features 1 and 2 of layer 2 at token 1 are fed by token 0 and raise the logit; feature 3 there
// is fed by token 1 and lowers it; feature 4 is in another range of layers, feature 5 at another token.
TraceGraph make_graph() {
  TraceGraph graph;
  graph.tokens = {"Mary", " to"}, graph.layers = 4, graph.heads = 1;
  const auto add = [&](TraceNodeKind kind, int64_t layer, int64_t position, int64_t feature,
                       double influence) {
    TraceNode node;
    node.kind = kind, node.layer = layer, node.position = position, node.feature = feature;
    node.influence = influence, node.value = 1, node.probability = kind == TraceNodeKind::kLogit ? 1 : 0;
    graph.nodes.push_back(node);
  };
  add(TraceNodeKind::kEmbedding, -1, 0, 40, 0.3);  // 0
  add(TraceNodeKind::kEmbedding, -1, 1, 41, 0.1);  // 1
  add(TraceNodeKind::kFeature, 2, 1, 1, 0.2);      // 2
  add(TraceNodeKind::kFeature, 2, 1, 2, 0.3);      // 3
  add(TraceNodeKind::kFeature, 2, 1, 3, 0.1);      // 4
  add(TraceNodeKind::kFeature, 3, 1, 4, 0.05);     // 5
  add(TraceNodeKind::kFeature, 2, 0, 5, 0.04);     // 6
  add(TraceNodeKind::kError, 2, 1, -1, 0.02);      // 7
  add(TraceNodeKind::kLogit, 4, 1, 90, 1);         // 8
  const auto link = [&](int64_t source, int64_t target, double weight) {
    TraceLink made;
    made.source = source, made.target = target, made.weight = weight;
    graph.links.push_back(made);
  };
  link(0, 2, 3), link(1, 2, 1), link(0, 3, 2), link(1, 4, 1), link(1, 5, 1), link(0, 6, 1);
  link(2, 8, 2), link(3, 8, 1.5), link(4, 8, -1), link(5, 8, 0.5), link(6, 8, 0.2), link(7, 8, 0.1);
  return graph;
}

const NodeLabels kAbout = {"Mary", " to", " Anne", " Anne", " to", "", " John", "", " her"};

TEST(Supernodes, JoinWhatIsFedAndReadAlike) {
  const TraceGraph graph = make_graph();
  const std::vector<Supernode> groups = group_nodes(graph, kAbout, {});
  ASSERT_EQ(groups.size(), 5u);
  EXPECT_THAT(groups[0].nodes, ElementsAre(3, 2)) << "the most influential first";
  EXPECT_DOUBLE_EQ(groups[0].influence, 0.5);
  EXPECT_DOUBLE_EQ(groups[0].effect, 3.5);
  EXPECT_EQ(groups[0].fed.front().position, 0);
  EXPECT_NEAR(groups[0].fed.front().share, 0.9, 1e-12);  // (0.2 * 3/4 + 0.3) / 0.5
  EXPECT_THAT(groups[1].nodes, ElementsAre(4)) << "lowers what the others raise";
  EXPECT_DOUBLE_EQ(groups[1].effect, -1);
}

TEST(Supernodes, HoldEveryFeatureAndErrorOnce) {
  std::set<int64_t> seen;
  for (const Supernode& group : group_nodes(make_graph(), kAbout, {})) {
    for (const int64_t node : group.nodes) EXPECT_TRUE(seen.insert(node).second) << node;
  }
  EXPECT_THAT(seen, ElementsAre(2, 3, 4, 5, 6, 7));
}

TEST(Supernodes, AreCalledByWhatTheySayOrFireOn) {
  const TraceGraph graph = make_graph();
  EXPECT_EQ(group_nodes(graph, kAbout, {})[0].label(), "on ' Anne'");
  NodeWords words(graph.nodes.size());
  words[2] = {" her", " she"}, words[3] = {" her"};
  const std::vector<Supernode> groups = group_nodes(graph, kAbout, words);
  EXPECT_EQ(groups[0].label(), "says ' her', ' she'") << "it reaches the logit directly";
  EXPECT_EQ(groups.back().label(), "errors of layers 2");
}

TEST(Supernodes, AreTheSameEveryTime) {
  const std::vector<Supernode> once = group_nodes(make_graph(), kAbout, {}),
                               again = group_nodes(make_graph(), kAbout, {});
  for (size_t n = 0; n < once.size(); ++n) EXPECT_EQ(once[n].nodes, again[n].nodes);
}

}  // namespace
}  // namespace openwork
