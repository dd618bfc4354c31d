// The heads a task needs, for a figure: every head's effect on the task (exact, METHOD 4), the smallest
// circuit that reaches the threshold, and the task's clean prompts as one batch.
#pragma once
#include <ATen/core/Tensor.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "analyze/heads/patterns.h"
#include "cli/task_options.h"

namespace openwork {

struct TaskHeads {
  std::vector<HeadPlace> order;            // all heads, most important first
  std::map<HeadPlace, double> importance;  // effect of each
  size_t needed = 0;                       // the first so many reach the threshold
  double faithfulness = 0;                 // of those
  at::Tensor ids;                          // [prompts, tokens], the clean ones
  nlohmann::json description;              // for the protocol
};

TaskHeads find_task_heads(const std::string& name, const Transformer& model, const TaskOptions& task,
                          const std::string& ablation, double threshold, const CommonOptions& common);

// The same as `circuit --level head --json FILE` found it for this model and task; fails where the file is of
// another model, task, number of prompts or seed.
TaskHeads read_task_heads(const std::string& file, const std::string& name, const Transformer& model,
                          const TaskOptions& task, const CommonOptions& common);

}  // namespace openwork
