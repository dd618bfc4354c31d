#include "analyze/circuits/edge_graph.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "base/error.h"

namespace openwork {

EdgeGraph::EdgeGraph(const ModelConfig& config)
    : layers_(config.layers),
      heads_(config.heads),
      width_(config.width),
      parallel_(config.parallel_residual) {}

int64_t EdgeGraph::visible_sources(int64_t destination) const {
  if (destination == logits()) return sources();
  const int64_t layer = layer_of(destination), before = head_source(layer, 0);
  const bool sees_heads =
      slot_of(destination) == 3 * heads_ && !parallel_;  // an MLP after its layer's attention
  return sees_heads ? before + heads_ : before;
}

std::vector<GraphEdge> EdgeGraph::edges() const {
  std::vector<GraphEdge> list;
  for (int64_t destination = 0; destination < destinations(); ++destination) {
    for (int64_t source = 0; source < visible_sources(destination); ++source)
      list.push_back({source, destination});
  }
  return list;
}

std::string EdgeGraph::source_name(int64_t source) const {
  if (source == 0) return "input";
  const int64_t layer = (source - 1) / (heads_ + 1), slot = (source - 1) % (heads_ + 1);
  return slot == heads_ ? fmt::format("m{}", layer) : fmt::format("a{}.h{}", layer, slot);
}

std::string EdgeGraph::destination_name(int64_t destination) const {
  if (destination == logits()) return "logits";
  const int64_t layer = layer_of(destination), slot = slot_of(destination);
  if (slot == 3 * heads_) return fmt::format("m{}", layer);
  return fmt::format("a{}.h{}<{}>", layer, slot % heads_, "qkv"[slot / heads_]);
}

std::string EdgeGraph::edge_name(const GraphEdge& edge) const {
  return source_name(edge.source) + "->" + destination_name(edge.destination);
}

std::vector<std::string> EdgeGraph::node_names() const {
  std::vector<std::string> names;
  for (int64_t source = 0; source < sources(); ++source) names.push_back(source_name(source));
  names.push_back("logits");
  return names;
}

GraphEdge EdgeGraph::parse_edge(const std::string& name) const {
  const size_t arrow = name.find("->");
  GraphEdge edge{-1, -1};
  for (int64_t n = 0; n < sources() && arrow != std::string::npos; ++n) {
    if (name.compare(0, arrow, source_name(n)) == 0) edge.source = n;
  }
  for (int64_t n = 0; n < destinations() && arrow != std::string::npos; ++n) {
    if (name.compare(arrow + 2, std::string::npos, destination_name(n)) == 0) edge.destination = n;
  }
  if (edge.source < 0 || edge.destination < 0 || edge.source >= visible_sources(edge.destination)) {
    fail_input(
        fmt::format("the model has no edge '{}'", printable(name, 60)), "names of graph edges",
        fmt::format(
            "write them like input->m0, a0.h0->a{}.h0<q> or m0->logits, the source before the destination",
            layers_ - 1));
  }
  return edge;
}

nlohmann::json to_mib(const EdgeGraph& graph, const at::Tensor& scores, const at::Tensor& in_graph) {
  const at::Tensor values = scores.to(at::kCPU, at::kDouble).contiguous(),
                   kept = in_graph.to(at::kCPU, at::kBool).contiguous();
  nlohmann::json nodes = nlohmann::json::object(), edges = nlohmann::json::object();
  for (const std::string& name : graph.node_names()) nodes[name] = {{"in_graph", false}};
  for (const GraphEdge& edge : graph.edges()) {
    const int64_t at = edge.destination * graph.sources() + edge.source;
    const bool inside = kept.data_ptr<bool>()[at];
    edges[graph.edge_name(edge)] = {{"score", values.data_ptr<double>()[at]}, {"in_graph", inside}};
    if (!inside) continue;
    nodes[graph.source_name(edge.source)]["in_graph"] = true;
    const std::string destination = graph.destination_name(edge.destination);
    nodes[destination.substr(0, destination.find('<'))]["in_graph"] = true;
  }
  return {{"cfg",
           {{"n_layers", graph.layers_},
            {"n_heads", graph.heads_},
            {"parallel_attn_mlp", graph.parallel_},
            {"d_model", graph.width_}}},
          {"nodes", nodes},
          {"edges", edges}};
}

}  // namespace openwork
