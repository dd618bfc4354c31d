// A trace read back from the graph file it was written to (report/trace_graph.h), as far as its figure needs it: for
// graphs of models that are not here. Files of circuit-tracer's own are read too; they have no heads, no scores and no
// supernodes of this program's, which are then made anew.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>

#include "analyze/trace/model_trace.h"

namespace openwork {

struct KeptTrace {
  ModelTrace trace;         // values of nodes other than features are not kept
  nlohmann::json protocol;  // null where the file has none
};

// Fails in one line on a file that is no such graph.
KeptTrace read_kept_trace(const std::filesystem::path& path);

}  // namespace openwork
