// The heads a task needs, for a figure: every head's effect on the task (exact, docs/method.md, 4), the
// smallest circuit that reaches the threshold, and the task's clean prompts as one batch.
#pragma once
#include <ATen/core/Tensor.h>

#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "analyze/circuits/circuit.h"

namespace openwork {

struct TaskHeads {
  std::vector<HeadPlace> order;            // all heads, most important first
  std::map<HeadPlace, double> importance;  // effect of each
  size_t needed = 0;                       // the first so many reach the threshold
  double faithfulness = 0;                 // of those
  at::Tensor ids;                          // [prompts, tokens], the clean ones
  nlohmann::json description;              // for the protocol; filled in by who knows where the task is from
};

TaskHeads find_task_heads(const Transformer& model, const Task& task, AblationKind ablation, double threshold,
                          uint64_t seed);

at::Tensor clean_prompts(const Task& task, const at::Device& device);  // [prompts, tokens]

}  // namespace openwork
