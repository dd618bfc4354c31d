// A graph that was traced and pruned before, pruned further without the model, by the rule of tracing (influence.h).
// Thresholds mean what they mean there, shares of what the trace itself had: nodes are chosen by the influence that the
// trace found, and the graph's links are taken to hold its own edge_threshold of what its nodes leave. So thresholds
// that are not below the graph's own change nothing, and a graph that was kept whole (1 and 1) comes to what tracing with
// these thresholds gives.
#pragma once
#include <vector>

#include "analyze/trace/trace_records.h"

namespace openwork {

struct GraphPruning {
  std::vector<bool> nodes, links;  // kept, by index in the graph; targets always are
  // Of all influence that the trace found, the share that nodes hold: those of the graph, and those kept.
  double influence_before = 0, influence_after = 0;
};

// Every link of the graph goes from a token, error, bias or a lower layer's node to a feature, an MLP or a target. Where
// no node has an influence (graphs of other programs), it is found from the links. Fails on graphs of too many nodes.
GraphPruning prune_graph(const TraceGraph& graph, double node_threshold, double edge_threshold);

}  // namespace openwork
