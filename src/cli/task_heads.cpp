#include "cli/task_heads.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "analyze/circuit.h"
#include "base/progress.h"

namespace openwork {
namespace {

at::Tensor clean_prompts(const Task& task, const at::Device& device) {
  std::vector<at::Tensor> rows;
  for (const TaskPrompt& prompt : task.prompts) rows.push_back(at::tensor(prompt.clean, at::kLong));
  return at::stack(rows).to(device);
}

}  // namespace

TaskHeads find_task_heads(const std::string& name, const Transformer& model, const TaskOptions& options,
                          const std::string& ablation, double threshold, const CommonOptions& common) {
  const Task task = open_task(name, model, options, common, common.seed);
  note(fmt::format("{}: effects of {} heads on {}", name, model.config().layers * model.config().heads,
                   describe_task(task)["task"].get<std::string>()));
  CircuitSettings settings;
  settings.ablation = parse_ablation(ablation);
  settings.threshold = threshold;
  settings.seed = common.seed;
  Sweep sweep("", {});
  const Circuit circuit = find_circuit(model, task, settings, sweep);
  TaskHeads heads;
  for (size_t n = 0; n < circuit.order.size(); ++n) {
    const Part part = parse_part(circuit.order[n], model.config(), task.length());
    heads.order.push_back({part.layer, part.head});
    heads.importance[heads.order.back()] = circuit.scores[n];
  }
  heads.needed = static_cast<size_t>(circuit.heads_at_threshold);
  for (const CurvePoint& point : circuit.curve.points) {
    if (point.count == circuit.heads_at_threshold) heads.faithfulness = point.faithfulness;
  }
  heads.ids = clean_prompts(task, model.device());
  heads.description = describe_task(task);
  heads.description["ablation"] = ablation;
  heads.description["threshold"] = threshold;
  return heads;
}

}  // namespace openwork
