// A traced prompt as the lines a person reads.
#pragma once
#include <string>
#include <vector>

#include "analyze/trace/model_trace.h"

namespace openwork {

// A table with a row for each answer of each model.
std::string format_trace_header();
std::vector<std::string> format_trace_rows(const ModelTrace& trace);

// Heads, what moves, what the graph is worth, the `top` strongest nodes, interventions and scores.
std::vector<std::string> format_trace(const ModelTrace& trace, int64_t top);

}  // namespace openwork
