// The heads a task needs, for a figure: every head's effect on the task (exact, docs/method.md, 4), the
// smallest circuit that reaches the threshold, and the task's clean prompts as one batch.
#pragma once
#include <ATen/core/Tensor.h>

#include <nlohmann/json.hpp>

#include "analyze/circuits/circuit.h"
#include "base/task_needs.h"

namespace openwork {

struct TaskHeads {
  TaskNeeds needs;             // its task's name is filled in with the description
  at::Tensor ids;              // [prompts, tokens], the clean ones
  nlohmann::json description;  // for the protocol; filled in by who knows where the task is from
};

TaskHeads find_task_heads(const Transformer& model, const Task& task, AblationKind ablation, double threshold,
                          uint64_t seed);

at::Tensor clean_prompts(const Task& task, const at::Device& device);  // [prompts, tokens]

}  // namespace openwork
