// Traces as files: each model's graph for public viewers, and the figure of graphs that were kept.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "analyze/trace/model_trace.h"
#include "draw/figure.h"

namespace openwork {

// graph.json -> graph-openwork-8m.json where several models are traced.
std::string name_for_model(const std::string& file, const std::string& model, size_t models);

// The graph as report/trace_graph.h has it; `version` is the program's.
void write_trace_graph(const std::string& path, const ModelTrace& trace, int64_t max_nodes,
                       const nlohmann::json& protocol, const std::string& version);

// Kept graphs as the figure that was drawn of them, or would have been.
draw::Figure draw_kept_traces(const std::vector<std::string>& files);

}  // namespace openwork
