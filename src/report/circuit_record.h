// One task's part of a comparison: what every model's heads are worth to it, the circuits that reach the
// threshold, their ratio and figures.
#pragma once
#include <string>
#include <vector>

#include "analyze/circuits/model_circuits.h"
#include "report/comparison_record.h"

namespace openwork {

// `name` is the task's in files and titles; `models` hold circuits of heads, found on `task`'s prompts; `protocol` ends
// the figures' notes.
TaskRecord make_task_record(const std::string& name, const Task& task,
                            const std::vector<ModelCircuits>& models, const CircuitSettings& settings,
                            const std::string& protocol);

}  // namespace openwork
