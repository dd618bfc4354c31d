#include "report/compare_tasks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/progress.h"
#include "report/captions.h"
#include "report/circuit_json.h"
#include "report/circuit_record.h"

namespace openwork {
namespace {

// A task's own name in files: copy, or a JSONL file's name without its folder and ending.
std::string name_in_files(const std::string& task) {
  return std::filesystem::path(task).stem().string();
}

}  // namespace

TaskComparison::TaskComparison(const std::vector<std::string>& tasks, int64_t prompts, uint64_t seed)
    : names_(tasks), asked_for_(!tasks.empty()), prompts_(prompts) {
  settings_.seed = seed;
  if (names_.empty()) names_ = {"copy"};
  if (names_ == std::vector<std::string>{"none"}) names_.clear();
  std::set<std::string> seen;
  for (const std::string& name : names_) {
    check_task_name(name);
    if (!seen.insert(name_in_files(name)).second)
      fail_input(fmt::format("two tasks are called '{}'", name_in_files(name)), "--task",
                 "name each task once, and files apart");
  }
}

void TaskComparison::add_task(const Transformer& model, const std::string& title,
                              const TaskVocabulary& vocabulary, const std::string& task_name) {
  const Task task = make_task(task_name, vocabulary, prompts_, settings_.seed);
  Sweep sweep("", {});
  OneTask& known = tasks_[task_name];
  known.models.push_back(
      find_circuits(model, title, {task}, {.settings = settings_, .drawn_edges = kDrawnEdges}, sweep));
  known.task = task;
}

void TaskComparison::add_model(const Transformer& model, const std::string& title,
                               const TaskVocabulary& vocabulary) {
  for (const std::string& task : names_) {
    if (tasks_[task].left_out) continue;
    note(fmt::format("circuit {} {}", title, task));
    try {
      add_task(model, title, vocabulary, task);
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
    if (!tasks_.at(name).left_out) tasks.push_back(describe_task(*tasks_.at(name).task));
  }
  return {{"tasks", tasks},
          {"ablation", ablation_name(settings_.ablation)},
          {"threshold", settings_.threshold},
          {"order", "exact effects, largest first"}};
}

std::vector<TaskRecord> TaskComparison::finish(const nlohmann::json& protocol) const {
  std::vector<TaskRecord> records;
  for (const std::string& name : names_) {
    const OneTask& task = tasks_.at(name);
    if (task.left_out) continue;
    records.push_back(make_task_record(is_built_in_task(name) ? name : name_in_files(name), *task.task,
                                       task.models, settings_, describe_protocol(protocol)));
  }
  return records;
}

std::vector<nlohmann::json> TaskComparison::answers() const {
  std::vector<nlohmann::json> answers;
  for (const std::string& name : names_) {
    const OneTask& task = tasks_.at(name);
    if (task.left_out) continue;
    nlohmann::json answer = circuits_json(task.models, settings_);
    answer["task"] = is_built_in_task(name) ? name : name_in_files(name);
    answer["prompt"] = nullptr;
    answers.push_back(std::move(answer));
  }
  return answers;
}

}  // namespace openwork
