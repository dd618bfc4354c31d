#include "analyze/trace/trace_ids.h"

#include <functional>

namespace openwork {

ModelTrace trace_ids(const TracedModel& traced, const std::vector<int64_t>& ids, const std::string& text,
                     const TraceQuestion& question, const PromptTraceSettings& settings,
                     const ModelTrace* first) {
  TracePrompt prompt = read_trace_prompt(traced, ids, text, question);
  if (first != nullptr) ask_as(*first, prompt);
  TraceProgress progress(traced);
  return trace_prompt(traced, prompt, settings, std::ref(progress));
}

}  // namespace openwork
