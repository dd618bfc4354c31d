#include "report/trace_features.h"

#include <fmt/format.h>

#include <set>

#include "base/error.h"
#include "io/safe_files.h"

namespace openwork {

size_t write_trace_features(const std::string& folder, const TracedModel& traced, const TraceGraph& graph) {
  if (!traced.descriptions || !traced.tokenizer) {
    fail_input(
        fmt::format("nothing is known of {}'s features", printable(traced.name, 80)), "--features-out",
        "use transcoders with descriptions (openwork transcode --describe) and a model with a tokenizer");
  }
  make_folder(folder);
  // By layer and number: one feature may be a node at several positions.
  std::set<std::pair<int64_t, int64_t>> written;
  for (const TraceNode& node : graph.nodes) {
    const FeatureDescription* about = find_description(traced, node);
    if (about == nullptr || !written.emplace(node.layer, node.feature).second) continue;
    write_feature_details(folder, *about, node.layer, node.feature, *traced.tokenizer);
  }
  return written.size();
}

}  // namespace openwork
