#include "analyze/circuits/task_heads.h"

#include <ATen/ATen.h>

namespace openwork {

at::Tensor clean_prompts(const Task& task, const at::Device& device) {
  std::vector<at::Tensor> rows;
  for (const TaskPrompt& prompt : task.prompts) rows.push_back(at::tensor(prompt.clean, at::kLong));
  return at::stack(rows).to(device);
}

TaskHeads find_task_heads(const Transformer& model, const Task& task, AblationKind ablation, double threshold,
                          uint64_t seed) {
  CircuitSettings settings;
  settings.ablation = ablation;
  settings.threshold = threshold;
  settings.seed = seed;
  Sweep sweep("", {});
  const Circuit circuit = find_circuit(model, task, settings, sweep);
  TaskHeads heads;
  TaskNeeds& needs = heads.needs;
  needs.threshold = threshold;
  for (size_t n = 0; n < circuit.order.size(); ++n) {
    needs.order.push_back(circuit.order[n].place());
    needs.importance[needs.order.back()] = circuit.scores[n];
  }
  needs.needed = static_cast<size_t>(circuit.heads_at_threshold);
  needs.faithfulness = circuit.faithfulness_at_threshold();
  heads.ids = clean_prompts(task, model.device());
  return heads;
}

}  // namespace openwork
