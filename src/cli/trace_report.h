// The lines that `trace` prints of a prompt.
#pragma once
#include "analyze/trace/model_trace.h"
#include "cli/common.h"

namespace openwork {

void print_trace_header(const CommonOptions& common);
void print_trace_row(const CommonOptions& common, const ModelTrace& trace);
// Heads, what moves, what the graph is worth, the strongest nodes, interventions and scores.
void print_trace(const CommonOptions& common, const ModelTrace& trace, int64_t top);

}  // namespace openwork
