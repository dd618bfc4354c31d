// The heads a task needs, with what the protocol says about them: found here, or out of what
// `circuit --level head --json FILE` wrote.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "analyze/circuits/task_heads.h"

namespace openwork {

TaskHeads find_described_heads(const Transformer& model, const Task& task, const std::string& ablation,
                               double threshold, uint64_t seed);

// `name` and `files` are the model as the file must know it, `task` its task. Fails where the file is of
// another model, task, number of prompts or length. Fills in all but the prompts' ids.
TaskHeads read_task_heads(const std::string& file, const std::string& name, const nlohmann::json& files,
                          const ModelConfig& config, const Task& task);

}  // namespace openwork
