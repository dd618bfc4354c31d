// A trace read back from the graph file it was written to (report/trace_graph.h), as far as its figure needs it: for
// graphs of models that are not here. Files of circuit-tracer's own are read too; they have no heads, no scores and no
// supernodes of this program's, which are then made anew.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>

#include "analyze/trace/model_trace.h"

namespace openwork {

struct KeptTrace {
  ModelTrace trace;    // values of nodes other than features are not kept
  std::string made;    // how, as describe_protocol says it; "" where the file has no protocol
  std::string pruned;  // how far it was pruned when it was stored already; "" where it was not
};

// Nodes and links have the file's order. Fails in one line on a file that is no such graph; `path` names it there.
KeptTrace read_kept_trace(const nlohmann::json& file, const std::filesystem::path& path);

}  // namespace openwork
