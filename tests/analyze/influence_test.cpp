#include "analyze/trace/influence.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace openwork {
namespace {

// One logit reads nodes 0, 1 and 2; node 1 reads 0 and 2; node 0 reads 3. Only 0 and 1 are rows.
EffectRows small_graph() {
  return {at::tensor({3.0f, -1.0f, 0.0f, 0.0f,   // the logit
                      1.0f, 0.0f, 3.0f, 0.0f,    // node 1
                      0.0f, 0.0f, 0.0f, -2.0f})  // node 0
              .view({3, 4}),
          {-1, 1, 0},
          {2, 1, 0},
          {1.0, 0.0, 0.0}};
}

TEST(Influence, FollowsAllPathsDown) {
  const Tensor influence = find_influence(small_graph());
  const double expected[] = {0.75 + 0.25 * 0.25, 0.25, 0.25 * 0.75, 0.75 + 0.25 * 0.25};
  for (int64_t n = 0; n < 4; ++n) EXPECT_NEAR(influence[n].item<double>(), expected[n], 1e-7) << n;
}

TEST(Influence, OrderOfRowsDoesNotMatter) {
  EffectRows rows = small_graph();
  const Tensor expected = find_influence(rows);
  rows.weights = rows.weights.flip(0);
  std::reverse(rows.columns.begin(), rows.columns.end());
  std::reverse(rows.levels.begin(), rows.levels.end());
  std::reverse(rows.starts.begin(), rows.starts.end());
  EXPECT_TRUE(at::allclose(find_influence(rows), expected));
}

TEST(Pruning, KeepsTheNodesThatHoldTheShare) {
  // Influences .8125, .25, .1875, .8125 of 2.0625: the two largest make .788, with node 1 it is .909.
  const PrunedEffects loose = prune_effects(small_graph(), std::vector<bool>(4, false), 0.8, 1.0);
  EXPECT_EQ(loose.nodes, (std::vector<bool>{true, true, false, true}));
  EXPECT_NEAR(loose.cumulative[1], (0.8125 * 2 + 0.25) / 2.0625, 1e-6);
  const PrunedEffects tight = prune_effects(small_graph(), std::vector<bool>(4, false), 0.7, 1.0);
  EXPECT_EQ(tight.nodes, (std::vector<bool>{true, false, false, true}));
  EXPECT_TRUE(tight.links[0][0].item<bool>() && tight.links[2][3].item<bool>());
  EXPECT_EQ(tight.links.sum().item<int64_t>(), 2);
}

TEST(Pruning, DropsNodesThatLeadNowhere) {
  // Links hold .75 (0 -> logit), .25 (1 -> logit), .0625 (0 -> 1), .1875 (2 -> 1), .8125 (3 -> 0) of 2.0625.
  const PrunedEffects pruned = prune_effects(small_graph(), std::vector<bool>(4, false), 1.0, 0.76);
  // .8125, .75 make .7576; with .25 it is .879: link 1 -> logit stays, but nothing leads to node 1 any more.
  EXPECT_EQ(pruned.nodes, (std::vector<bool>{true, false, false, true}));
  EXPECT_EQ(pruned.links.sum().item<int64_t>(), 2);
}

TEST(Pruning, KeepsWhatIsToBeKept) {
  const PrunedEffects pruned = prune_effects(small_graph(), {false, false, true, false}, 0.7, 0.5);
  EXPECT_TRUE(pruned.nodes[2]);
}

TEST(Pruning, OfNoEffectsKeepsNothing) {
  EffectRows rows = small_graph();
  rows.weights = at::zeros_like(rows.weights);
  const PrunedEffects pruned = prune_effects(rows, std::vector<bool>(4, false), 0.8, 0.98);
  EXPECT_EQ(pruned.nodes, std::vector<bool>(4, false));
  EXPECT_EQ(pruned.links.sum().item<int64_t>(), 0);
}

}  // namespace
}  // namespace openwork
