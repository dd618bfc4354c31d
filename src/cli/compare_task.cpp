#include "cli/compare_task.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/progress.h"
#include "cli/circuit_figure.h"
#include "cli/figure_options.h"
#include "cli/task_options.h"
#include "draw/heat_map.h"

namespace openwork {
namespace {

constexpr size_t kDrawnEdges = 60;

// A task's own name in files: copy, or a JSONL file's name without its folder and ending.
std::string file_name(const std::string& task) {
  return std::filesystem::path(task).stem().string();
}

// Effects by layer and head, out of an ordering of `L5H1`.
std::vector<std::vector<double>> effects_of(const Circuit& circuit, int64_t layers, int64_t heads) {
  std::vector<std::vector<double>> effects(static_cast<size_t>(layers),
                                           std::vector<double>(static_cast<size_t>(heads), 0.0));
  for (size_t n = 0; n < circuit.order.size(); ++n) {
    const std::string& name = circuit.order[n];
    const size_t middle = name.find('H');
    effects[std::stoul(name.substr(1, middle - 1))][std::stoul(name.substr(middle + 1))] = circuit.scores[n];
  }
  return effects;
}

draw::Figure draw_effects(const TaskRecord& task) {
  double high = 0;
  for (const TaskModel& model : task.models) {
    for (const auto& layer : model.effects) {
      for (const double effect : layer) high = std::max(high, std::abs(effect));
    }
  }
  std::vector<draw::Figure> maps;
  for (const TaskModel& model : task.models) {
    draw::HeatMap map;
    map.caption.title = model.name;
    map.value_name = "effect";
    map.values = model.effects;
    map.high = high;
    for (size_t layer = 0; layer < model.effects.size(); ++layer)
      map.rows.push_back(fmt::format("L{}", layer));
    for (size_t head = 0; head < model.effects[0].size(); ++head)
      map.columns.push_back(fmt::format("H{}", head));
    maps.push_back(draw::draw_heat_map(map));
  }
  draw::Caption caption;
  caption.title = fmt::format("What each head is worth on {}", task.task);
  caption.note = fmt::format("{} lost when the head alone is ablated ({}), mean over {} prompts.",
                             task.metric, task.ablation, task.prompts);
  return draw::arrange_figures(std::move(maps), 2, caption);
}

}  // namespace

TaskComparison::TaskComparison(const CompareOptions& options)
    : options_(options), names_(options.tasks), asked_for_(!options.tasks.empty()) {
  settings_.seed = options.common.seed;
  if (names_.empty()) names_ = {"copy"};
  if (names_ == std::vector<std::string>{"none"}) names_.clear();
  for (const std::string& name : names_) {
    if (is_built_in_task(name) || std::filesystem::exists(name)) continue;
    fail_input(fmt::format("no task '{}'", printable(name, 60)), "--task",
               fmt::format("use {}, none, or a JSONL file", fmt::join(built_in_tasks(), ", ")));
  }
}

void TaskComparison::add_task(const Transformer& model, const std::string& name,
                              const std::string& task_name) {
  const Task task =
      open_task(name, model, {task_name, options_.task_prompts}, options_.common, options_.common.seed);
  OneTask& known = tasks_[task_name];
  known.metric = metric_name(task.metric);
  known.prompts = static_cast<int64_t>(task.prompts.size());
  known.description = describe_task(task);
  Sweep sweep("", {});
  OneModel found{short_name(name),
                 find_circuit(model, task, settings_, sweep),
                 {},
                 model.config().layers,
                 model.config().heads};
  std::vector<Part> heads;
  for (const HeadRole& role : found.circuit.roles) heads.push_back(role.head);
  found.edges = connect_heads(model, task, heads, kDrawnEdges);
  known.models.push_back(std::move(found));
}

void TaskComparison::add_model(const Transformer& model, const std::string& name) {
  for (const std::string& task : names_) {
    if (tasks_[task].left_out) continue;
    note(fmt::format("circuit {} {}", short_name(name), task));
    try {
      add_task(model, name, task);
    } catch (const Error& error) {
      if (asked_for_) throw;
      note(fmt::format("the task {} is left out: {}", task, error.what()));
      tasks_[task].left_out = true;
    }
  }
}

nlohmann::json TaskComparison::describe() const {
  nlohmann::json tasks = nlohmann::json::array();
  for (const std::string& name : names_) {
    if (!tasks_.at(name).left_out) tasks.push_back(tasks_.at(name).description);
  }
  return {{"tasks", tasks},
          {"ablation", ablation_name(settings_.ablation)},
          {"threshold", settings_.threshold},
          {"order", "exact effects, largest first"}};
}

TaskRecord TaskComparison::finish_task(const std::string& name, const OneTask& task) const {
  TaskRecord record;
  record.task = is_built_in_task(name) ? name : file_name(name);
  record.metric = task.metric;
  record.ablation = ablation_name(settings_.ablation);
  record.threshold = settings_.threshold;
  record.prompts = task.prompts;
  std::vector<CircuitPicture> pictures;
  for (const OneModel& model : task.models) {
    const Circuit& circuit = model.circuit;
    TaskModel one;
    one.name = model.name;
    one.clean = mean_of(circuit.curve.all);
    one.corrupt = mean_of(circuit.corrupt);
    one.effects = effects_of(circuit, model.layers, model.heads);
    one.circuit.assign(circuit.order.begin(), circuit.order.begin() + circuit.heads_at_threshold);
    for (const CurvePoint& point : circuit.curve.points) one.faithfulness.push_back(point.faithfulness);
    one.circuit_interval = circuit.curve.threshold_interval;
    one.heads = model.layers * model.heads;
    record.models.push_back(std::move(one));
    pictures.push_back({model.name, circuit, model.edges});
  }
  if (task.models.size() == 2) {
    const CircuitRatio ratio = compare_curves({task.models[0].circuit.curve}, {task.models[1].circuit.curve},
                                              settings_.threshold, settings_.seed);
    record.ratio = ratio.ratio;
    record.ratio_interval = ratio.interval;
  }
  const std::string protocol = fmt::format("{} prompts, {}, {} ablation, seed {}.", task.prompts, task.metric,
                                           record.ablation, settings_.seed);
  record.figures.push_back({"circuit_" + record.task,
                            "Faithfulness curves and circuit diagrams of both models.",
                            draw_circuits(pictures, settings_, record.task, protocol)});
  record.figures.push_back(
      {"effects_" + record.task, "Heat maps of every head's effect.", draw_effects(record)});
  return record;
}

std::vector<TaskRecord> TaskComparison::finish() const {
  std::vector<TaskRecord> records;
  for (const std::string& name : names_) {
    if (!tasks_.at(name).left_out) records.push_back(finish_task(name, tasks_.at(name)));
  }
  return records;
}

}  // namespace openwork
