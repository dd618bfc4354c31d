// A traced prompt as the graph JSON that public viewers read (Neuronpedia's schema, circuit-tracer's files;
// docs/trace.md): metadata, qParams, nodes, links. What that schema has no word for stands in keys of its
// own, which it allows:
//   links   heads: [{layer, head, weight}]     whose weights sum to the link's; only between tokens. In large
//           other_heads: weight                graphs (a million entries) each link has its largest, and this
//   nodes   name: L3F512@7                     as --ablate and --boost take it
// Whole MLPs are written as reconstruction errors (nothing of them is explained) with "MLP 3" as their label,
// biases as feature_type "bias". Viewers prune by `influence`: there it is the share of all influence that
// the nodes at least as influential make up, as circuit-tracer writes it; the node's own share is
// `own_influence`.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "report/trace_figure.h"

namespace openwork {

// What the graph's file says about its making.
struct TraceGraphOrigin {
  std::string slug, scan;        // the file's own name; model and transcoders as viewers know them
  std::string prompt;            // as text
  std::string program, version;  // who made it
  std::string feature_url;       // where feature files are, or empty
  int64_t created_ms = 0;        // since 1970
  int64_t max_nodes = 0;
  nlohmann::json protocol;  // kept whole, in a key of its own
};

nlohmann::json make_trace_graph(const TraceGraph& graph, const TraceGraphOrigin& origin,
                                const NodeLabels& labels);

// The node's id in that file: 3_512_7 (a feature), E_464_7, error_3_7, mlp_3_7, bias_3_7, 31_3290_8 (a
// logit).
std::string graph_node_id(const TraceGraph& graph, const TraceNode& node);

}  // namespace openwork
