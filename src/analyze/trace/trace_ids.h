// A prompt in a model's own tokens, asked about and traced with a bar that counts: what `trace` and `compare`
// call.
#pragma once
#include <string>
#include <vector>

#include "analyze/trace/model_trace.h"
#include "base/progress.h"

namespace openwork {

// A bar that counts nodes attributed.
class TraceProgress {
 public:
  explicit TraceProgress(const TracedModel& traced) : progress_("tracing " + traced.name, 0, " nodes") {}
  void operator()(int64_t done, int64_t all) {
    progress_.set(static_cast<uint64_t>(done), "of " + std::to_string(all));
  }

 private:
  Progress progress_;
};

// `text` is the prompt's, empty where only tokens are known. Where `first`, another model's trace, has the
// same tokens, the same two are asked about.
ModelTrace trace_ids(const TracedModel& traced, const std::vector<int64_t>& ids, const std::string& text,
                     const TraceQuestion& question, const PromptTraceSettings& settings,
                     const ModelTrace* first);

}  // namespace openwork
