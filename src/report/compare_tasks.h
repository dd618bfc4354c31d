// The part of `compare` that asks what tasks need: every head's effect, and the smallest faithful set of
// heads, in each model on the same prompts.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "analyze/circuits/model_circuits.h"
#include "model/transformer.h"
#include "report/comparison_record.h"

namespace openwork {

class TaskComparison {
 public:
  // `tasks` are names or JSONL files; empty: copy; `none` alone: no task. `prompts` of each; 0: as many as
  // make_task takes.
  TaskComparison(const std::vector<std::string>& tasks, int64_t prompts, uint64_t seed);

  // A built-in default task that a model cannot do (ablating everything does not hurt it) is left out with a
  // note; one that was asked for by name is an error.
  void add_model(const Transformer& model, const std::string& title, const TaskVocabulary& vocabulary);

  nlohmann::json describe() const;  // for the protocol
  std::vector<TaskRecord> finish(const nlohmann::json& protocol) const;
  // What POST /api/circuit of each task would answer (docs/serve.md), for the viewer in the page.
  std::vector<nlohmann::json> answers() const;

 private:
  struct OneTask {
    std::optional<Task> task;  // as the latest model reads it
    std::vector<ModelCircuits> models;
    bool left_out = false;
  };

  void add_task(const Transformer& model, const std::string& name, const TaskVocabulary& vocabulary,
                const std::string& task);

  std::vector<std::string> names_;  // of tasks, in the order asked for
  bool asked_for_;
  int64_t prompts_;
  CircuitSettings settings_;
  std::map<std::string, OneTask> tasks_;
};

}  // namespace openwork
