// Circuits and their tasks as JSON; docs/json.md lists the keys.
#pragma once
#include <nlohmann/json.hpp>

#include "analyze/circuits/model_circuits.h"
#include "analyze/circuits/task.h"

namespace openwork {

// A task's part of the protocol: {"task", "prompts", "tokens", "metric", "task_seed" or "task_sha256" of the
// file}
nlohmann::json describe_task(const Task& task);

nlohmann::json to_json(const ModelCircuits& model);
nlohmann::json to_json(const ModelRatio& ratio);

// Several models on one task: {"ablation", "threshold", "models": [..], "ratios": [..]}.
nlohmann::json circuits_json(const std::vector<ModelCircuits>& models, const CircuitSettings& settings);

}  // namespace openwork
