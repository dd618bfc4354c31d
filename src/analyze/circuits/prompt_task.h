// One prompt as a task: does the model say the answer rather than the wrong one? There is no corrupt prompt, so
// parts can be ablated to zero alone.
#pragma once
#include <vector>

#include "analyze/circuits/task.h"

namespace openwork {

Task make_prompt_task(const std::vector<int64_t>& ids, int64_t answer, int64_t wrong);

}  // namespace openwork
