#include "report/circuit_mib.h"

#include <set>

namespace openwork {

nlohmann::json to_mib(const Circuit& circuit) {
  const EdgeGraph& graph = *circuit.graph;
  const std::set<GraphEdge> kept(circuit.edges.begin(), circuit.edges.end());
  nlohmann::json nodes = nlohmann::json::object(), edges = nlohmann::json::object();
  for (const std::string& name : graph.node_names()) nodes[name] = {{"in_graph", false}};
  size_t n = 0;
  for (const GraphEdge& edge : graph.edges()) {
    const bool inside = kept.contains(edge);
    edges[graph.edge_name(edge)] = {{"score", circuit.edge_scores[n++]}, {"in_graph", inside}};
    if (!inside) continue;
    nodes[graph.source_name(edge.source)]["in_graph"] = true;
    const std::string destination = graph.destination_name(edge.destination);
    nodes[destination.substr(0, destination.find('<'))]["in_graph"] = true;
  }
  return {{"cfg",
           {{"n_layers", graph.layers()},
            {"n_heads", graph.heads()},
            {"parallel_attn_mlp", graph.parallel()},
            {"d_model", graph.width()}}},
          {"nodes", nodes},
          {"edges", edges}};
}

}  // namespace openwork
