#include "analyze/trace_records.h"

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

}  // namespace openwork
