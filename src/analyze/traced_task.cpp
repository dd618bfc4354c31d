#include "analyze/traced_task.h"

namespace openwork {

std::vector<TracePrompt> trace_prompts_of(const Task& task, const TracedModel& traced) {
  std::vector<TracePrompt> prompts;
  for (const TaskPrompt& prompt : task.prompts) {
    const TaskRead& last = prompt.reads.back();
    TracePrompt& one = prompts.emplace_back();
    one.ids.assign(prompt.clean.begin(),
                   prompt.clean.begin() + static_cast<std::ptrdiff_t>(last.position) + 1);
    one.targets = {last.answers.front()};
    for (const int64_t id : one.ids) one.text += traced.text_of(id);
  }
  return prompts;
}

}  // namespace openwork
