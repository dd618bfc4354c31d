// Traces as files: each model's graph for public viewers, and what is made of graphs that were kept: their figure, and
// smaller ones. A graph named .zst is packed, and read so.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "analyze/trace/model_trace.h"
#include "draw/figure.h"
#include "report/graph_pruning.h"

namespace openwork {

// graph.json -> graph-openwork-8m.json where several models are traced; graph.json.zst -> graph-openwork-8m.json.zst.
std::string name_for_model(const std::string& file, const std::string& title, size_t models);

// The graph as report/trace_graph.h has it; `version` is the program's.
void write_trace_graph(const std::string& path, const ModelTrace& trace, int64_t max_nodes,
                       const nlohmann::json& protocol, const std::string& version);

// Kept graphs, read and, where the settings ask for it, pruned further. `graph`, where it is not empty, is the file that
// what is left is written to, of several graphs one each as name_for_model has it: "wrote ..." is in `lines`.
struct KeptTraces {
  std::vector<KeptTrace> traces;
  std::vector<std::string> lines;
};
KeptTraces take_kept_traces(const std::vector<std::string>& files, const PruneSettings& settings,
                            const std::string& graph);

// The figure that was drawn of them, or would have been.
draw::Figure draw_kept_traces(const std::vector<KeptTrace>& kept);

}  // namespace openwork
