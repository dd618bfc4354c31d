#include "analyze/circuits/edge_graph.h"

#include <fmt/format.h>

#include "base/error.h"

namespace openwork {

char input_name(HeadInput input) {
  return "qkv"[static_cast<int>(input)];
}

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

std::string to_string(const GraphNode& node) {
  switch (node.kind) {
    case GraphNode::Kind::kInput:
      return "input";
    case GraphNode::Kind::kHead:
      return node.place.name();
    case GraphNode::Kind::kMlp:
      return fmt::format("m{}", node.place.layer);
    case GraphNode::Kind::kLogits:
      return "logits";
  }
  return "";
}

GraphNode EdgeGraph::source_node(int64_t source) const {
  if (source == 0) return {GraphNode::Kind::kInput};
  const int64_t layer = (source - 1) / (heads_ + 1), slot = (source - 1) % (heads_ + 1);
  if (slot == heads_) return {GraphNode::Kind::kMlp, {layer, 0}};
  return {GraphNode::Kind::kHead, {layer, slot}};
}

GraphNode EdgeGraph::destination_node(int64_t destination) const {
  if (destination == logits()) return {GraphNode::Kind::kLogits};
  const int64_t layer = layer_of(destination), slot = slot_of(destination);
  if (slot == 3 * heads_) return {GraphNode::Kind::kMlp, {layer, 0}};
  return {GraphNode::Kind::kHead, {layer, slot % heads_}};
}

std::optional<HeadInput> EdgeGraph::input_of(int64_t destination) const {
  if (destination_node(destination).kind != GraphNode::Kind::kHead) return std::nullopt;
  return static_cast<HeadInput>(slot_of(destination) / heads_);
}

namespace {

// As MIB writes it: heads as a5.h1.
std::string mib_name(const GraphNode& node) {
  if (node.kind != GraphNode::Kind::kHead) return to_string(node);
  return fmt::format("a{}.h{}", node.place.layer, node.place.head);
}

}  // namespace

std::string EdgeGraph::source_name(int64_t source) const {
  return mib_name(source_node(source));
}

std::string EdgeGraph::destination_name(int64_t destination) const {
  const std::string name = mib_name(destination_node(destination));
  const std::optional<HeadInput> input = input_of(destination);
  return input ? fmt::format("{}<{}>", name, input_name(*input)) : name;
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

}  // namespace openwork
