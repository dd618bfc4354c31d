// A stored graph made smaller, in its own format: nodes and links left out by the rule of tracing
// (analyze/trace/prune_graph.h), everything else of the file kept as it was: scores, worth, explanation, captions,
// protocol, what every node's influence was. What was done is added to metadata.openwork.pruned:
//   [{file, sha256, from: {node_threshold, edge_threshold, nodes, links, influence}, node_threshold, edge_threshold,
//     nodes, links, influence}]     influence: the share of all the trace's influence that the nodes hold
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "report/trace_kept.h"

namespace openwork {

struct PruneSettings {
  std::optional<double> node_threshold, edge_threshold;  // none: the stored graph's own

  bool any() const { return node_threshold || edge_threshold; }
};

// `file` is the graph that `kept` was read from, at `path`. Fails in one line where its views are not as they should be.
nlohmann::json prune_stored_graph(nlohmann::json file, const KeptTrace& kept, const PruneSettings& settings,
                                  const std::filesystem::path& path);

// "154 of 941 nodes, 495 of 168105 links, 48.1 % of the influence", of a graph that was pruned again.
std::string describe_pruning(const nlohmann::json& graph);

}  // namespace openwork
