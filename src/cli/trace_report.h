// What `trace` says of one prompt: lines for people, the figure, JSON for programs.
#pragma once
#include "cli/trace_model.h"

namespace openwork {

void print_trace_header(const CommonOptions& common);
void print_trace_row(const CommonOptions& common, const ModelTrace& trace);
// Heads, what moves, the strongest nodes, interventions and scores.
void print_trace(const CommonOptions& common, const ModelTrace& trace, int64_t top);

// The models one above the other; `protocol` stands under them.
draw::Figure draw_model_traces(const std::vector<ModelTrace>& traces, const GivenPrompts& given,
                               const nlohmann::json& protocol);

nlohmann::json trace_json(const ModelTrace& trace, int64_t top);

}  // namespace openwork
