// A traced prompt as the graph JSON that public viewers read (Neuronpedia's schema, circuit-tracer's files;
// docs/trace.md): metadata, qParams, nodes, links. What that schema has no word for stands in keys of its
// own, which it allows:
//   links   heads: [{layer, head, weight}]     whose weights sum to the link's; only between tokens. In large
//           other_heads: weight                graphs (a million entries) each link has its largest, and this.
//                                              In files heads are [layer, head, weight] (report/graph_text.h)
//   nodes   name: L3F512@7                     as --ablate and --boost take it
//   metadata  openwork: {title, layers, heads, transcoders, worth, explanation, supernodes, query_key}: what the figure
//           says beside the graph, so that a kept file can be drawn (report/trace_kept.h)
// Supernodes stand in qParams too, as viewers read them: [label, node_id, ...].
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
  nlohmann::json protocol;     // kept whole, in a key of its own
  nlohmann::json record = {};  // describe_trace's, likewise; null: not known
  std::vector<Supernode> supernodes = {};
};

// What a graph's file keeps of its trace beside the graph.
nlohmann::json describe_trace(const ModelTrace& trace);

nlohmann::json make_trace_graph(const TraceGraph& graph, const TraceGraphOrigin& origin,
                                const NodeLabels& labels);

// Several models' traces of one prompt with their graphs, thinned to `max_links` links of eight heads each, for views
// that are sent over a network or stand in a page: {"one_answer", "models": [{"name", "trace", "graph"}]}.
nlohmann::json traces_json(const std::vector<ModelTrace>& traces, int64_t max_nodes, int64_t max_links);

// The node's id in that file: 3_512_7 (a feature), E_464_7, error_3_7, mlp_3_7, bias_3_7, 31_3290_8 (a
// logit).
std::string graph_node_id(const TraceGraph& graph, const TraceNode& node);

}  // namespace openwork
