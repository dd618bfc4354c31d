// The comparison page's traced prompt: several models' traces as one record.
#pragma once
#include <string>
#include <vector>

#include "analyze/trace/model_trace.h"
#include "report/comparison_record.h"

namespace openwork {

// The models, of which there is one at least and whose prompt has two tokens at least, in their order. `top`:
// strongest nodes in the JSON; `prompt` and `protocol` are the figure's (trace_figure.h).
TraceRecord make_trace_record(const std::vector<ModelTrace>& traces, int64_t top, const std::string& prompt,
                              const std::string& protocol);

}  // namespace openwork
