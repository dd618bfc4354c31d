// The part of `compare` that asks what tasks need: every head's effect, and the smallest faithful set of
// heads, in each model on the same prompts.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "analyze/circuits/circuit.h"
#include "cli/compare_model.h"
#include "model/transformer.h"

namespace openwork {

class TaskComparison {
 public:
  explicit TaskComparison(const CompareOptions& options);

  // A built-in default task that a model cannot do (ablating everything does not hurt it) is left out with a
  // note; one that was asked for by name is an error.
  void add_model(const Transformer& model, const std::string& name);

  nlohmann::json describe() const;  // for the protocol
  std::vector<TaskRecord> finish() const;

 private:
  struct OneModel {
    std::string name;
    Circuit circuit;
    std::vector<DrawnEdge> edges;
    int64_t layers = 0, heads = 0;
  };
  struct OneTask {
    std::string metric;
    int64_t prompts = 0;
    nlohmann::json description;
    std::vector<OneModel> models;
    bool left_out = false;
  };

  void add_task(const Transformer& model, const std::string& name, const std::string& task);
  TaskRecord finish_task(const std::string& name, const OneTask& task) const;

  const CompareOptions& options_;
  CircuitSettings settings_;
  std::vector<std::string> names_;  // of tasks, in the order asked for
  bool asked_for_;
  std::map<std::string, OneTask> tasks_;
};

}  // namespace openwork
