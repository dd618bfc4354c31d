// Which nodes matter to the targets of a trace, as circuit-tracer reckons it. A target's effects are made
// absolute and divided by their sum; a node's influence is what reaches it when each target's weight flows
// down along these, over all paths: weights (A + A^2 + ...). Pruning keeps the nodes that hold
// `node_threshold` of all influence, then the links that hold `edge_threshold` of what is left, then whatever
// still leads somewhere.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace openwork {

using at::Tensor;

// Effects on R nodes from N: a row is a target of effects, a column a source.
struct EffectRows {
  Tensor weights;                // [R, N]
  std::vector<int64_t> columns;  // [R]: which column the row's node is; -1: none, it is a logit
  std::vector<int64_t> levels;   // [R]: a row has effects from nodes of lower levels alone
  std::vector<double> starts;    // [R]: the weight of a logit, summing to 1; 0 for all others
};

Tensor find_influence(const EffectRows& effects);  // [N] double, on the CPU

// What each row's node passes on: its own weight and the influence on it. [R]
std::vector<double> row_influence(const EffectRows& effects, const Tensor& influence);

inline constexpr double kSmallestSum = 1e-10;  // what the sizes of a row's effects are divided by at least

struct PrunedLinks {
  std::vector<bool> nodes;  // [N]: kept
  Tensor links;             // [R, N] bool, on the CPU: kept; of kept nodes alone
};
// Of the links between the `chosen` nodes, those that hold `edge_threshold` of what is left (1: all), and of the nodes
// whatever still leads somewhere: columns that are rows too need links in and out to stay, other columns links out, those
// of `always` (embeddings) nothing.
PrunedLinks prune_links(const EffectRows& effects, const std::vector<bool>& chosen,
                        const std::vector<bool>& always, double edge_threshold);

struct PrunedEffects : PrunedLinks {
  std::vector<double> influence;   // [N]
  std::vector<double> cumulative;  // [N]: the share held by nodes that have at least as much
};
// prune_links among the nodes that hold `node_threshold` of all influence.
PrunedEffects prune_effects(const EffectRows& effects, const std::vector<bool>& always, double node_threshold,
                            double edge_threshold);

}  // namespace openwork
