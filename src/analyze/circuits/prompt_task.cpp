#include "analyze/circuits/prompt_task.h"

namespace openwork {

Task make_prompt_task(const std::vector<int64_t>& ids, int64_t answer, int64_t wrong) {
  const TaskRead last{static_cast<int64_t>(ids.size()) - 1, {answer}, {wrong}};
  return {.name = "prompt", .prompts = {{.clean = ids, .corrupt = ids, .reads = {last}}}};
}

}  // namespace openwork
