// What is known of a traced graph's features, written for public viewers.
#pragma once
#include <string>

#include "analyze/trace/traced_model.h"

namespace openwork {

// A file per feature of the graph, NUMBER.json as viewers ask for it (transcode/descriptions.h); returns how
// many. Fails where nothing is known: no descriptions, or no tokenizer.
size_t write_trace_features(const std::string& folder, const TracedModel& traced, const TraceGraph& graph);

}  // namespace openwork
