#include "report/circuit_record.h"

#include <fmt/format.h>

#include "base/number_text.h"
#include "report/ablation_figure.h"
#include "report/circuit_figure.h"

namespace openwork {
namespace {

// Scores by layer and head.
std::vector<std::vector<double>> effects_of(const ModelCircuits& model) {
  std::vector<std::vector<double>> effects(static_cast<size_t>(model.layers),
                                           std::vector<double>(static_cast<size_t>(model.heads), 0.0));
  const Circuit& circuit = model.shown();
  for (size_t n = 0; n < circuit.order.size(); ++n) {
    const Part& part = circuit.order[n];
    effects[static_cast<size_t>(part.layer)][static_cast<size_t>(part.head)] = circuit.scores[n];
  }
  return effects;
}

TaskModel make_task_model(const ModelCircuits& model) {
  const Circuit& circuit = model.shown();
  TaskModel record;
  record.name = model.name;
  record.clean = mean_of(circuit.curve.all);
  record.corrupt = mean_of(circuit.corrupt);
  record.effects = effects_of(model);
  for (const HeadPlace& head : circuit.heads()) record.circuit.push_back(head.name());
  for (const CurvePoint& point : circuit.curve.points) record.faithfulness.push_back(point.faithfulness);
  record.circuit_interval = circuit.curve.threshold_interval;
  record.heads = model.layers * model.heads;
  return record;
}

}  // namespace

TaskRecord make_task_record(const std::string& name, const Task& task,
                            const std::vector<ModelCircuits>& models, const CircuitSettings& settings,
                            const std::string& protocol) {
  TaskRecord record;
  record.task = name;
  record.metric = metric_name(task.metric);
  record.ablation = ablation_name(settings.ablation);
  record.threshold = settings.threshold;
  record.prompts = static_cast<int64_t>(task.prompts.size());
  for (const ModelCircuits& model : models) record.models.push_back(make_task_model(model));
  if (models.size() > 1) {
    const CircuitRatio ratio =
        compare_curves(models.front().curves(), models.back().curves(), settings.threshold, settings.seed);
    record.ratio = ratio.ratio;
    record.ratio_interval = ratio.interval;
  }
  const std::string note = fmt::format("{}, {}, {} ablation. {}", count_of(record.prompts, "prompt"),
                                       record.metric, record.ablation, protocol);
  record.figures.push_back({"circuit_" + name,
                            models.size() > 2 ? "Faithfulness curves and circuit diagrams of all models."
                                              : "Faithfulness curves and circuit diagrams of both models.",
                            draw_circuits(models, settings, name, note)});
  record.figures.push_back(
      {"effects_" + name, "Heat maps of every head's effect.", draw_effects(record, protocol)});
  return record;
}

}  // namespace openwork
