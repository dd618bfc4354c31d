#include "analyze/trace/trace_records.h"

#include <cmath>

namespace openwork {

std::string TraceNode::name() const {
  const std::string layer_text = std::to_string(layer), place = "@" + std::to_string(position);
  switch (kind) {
    case TraceNodeKind::kEmbedding:
      return "T" + place;
    case TraceNodeKind::kFeature:
      return "L" + layer_text + "F" + std::to_string(feature) + place;
    case TraceNodeKind::kMlp:
      return "M" + layer_text + place;
    case TraceNodeKind::kError:
      return "E" + layer_text + place;
    case TraceNodeKind::kBias:
      return "B" + layer_text + place;
    case TraceNodeKind::kLogit:
      return std::to_string(feature);
  }
  return {};
}

std::vector<double> parts_in_answer(const TraceGraph& graph) {
  std::vector<double> incoming(graph.nodes.size(), 0), parts;
  for (const TraceLink& link : graph.links)
    incoming[static_cast<size_t>(link.target)] += std::abs(link.weight);
  // Targets count 1 in all, by their probabilities; every other node by its own influence.
  double probability = 0;
  for (const TraceNode& node : graph.nodes)
    probability += node.kind == TraceNodeKind::kLogit ? node.probability : 0;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const TraceNode& node = graph.nodes[n];
    const double weight = node.kind != TraceNodeKind::kLogit ? node.influence
                          : probability > 0                  ? node.probability / probability
                                                             : 1;
    parts.push_back(incoming[n] > 0 ? weight / incoming[n] : 0);
  }
  return parts;
}

}  // namespace openwork
