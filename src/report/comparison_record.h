// Everything `compare` finds out about its models: what the page, the JSON and the printed summary are made of.
// Parts that were not asked for are empty, and their sections are left out.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "analyze/comparison.h"
#include "base/interval.h"
#include "report/statistics_figures.h"

namespace openwork {

// One task: what each head of each model is worth, and the circuits that reach the threshold.
struct TaskModel {
  std::string name;
  double clean = 0, corrupt = 0;             // the metric
  std::vector<std::vector<double>> effects;  // [layer][head]
  std::vector<std::string> circuit;          // the heads of the smallest faithful set, best first
  std::vector<double> faithfulness;          // with the first 0, 1, 2, ... heads
  Interval circuit_interval;                 // of the circuit's size
  int64_t heads = 0;                         // of the model
};
struct TaskRecord {
  std::string task, metric, ablation;
  double threshold = 0.9;
  int64_t prompts = 0;
  std::vector<TaskModel> models;
  double ratio = 0;  // how many times fewer heads the last model needs than the first
  Interval ratio_interval;
  std::vector<NamedFigure> figures;
};

// The page's prompt traced to its answer.
struct TracedModelRecord {
  std::string name, answer;  // the token, marked for print
  double probability = 0;
  int64_t heads_needed = 0, heads = 0;  // that carry `share`; of the model
  std::string first_heads;              // "L11H7, L10H1, ..."
  int64_t target = -1;                  // the answer's token in the model's own vocabulary
};
struct TraceRecord {
  std::string from, to;  // the two tokens that the heads move something between, marked, with their positions
  double share = 0.8;
  bool features = false;  // transcoders' features are nodes; else whole MLPs
  std::vector<TracedModelRecord> models;
  nlohmann::json json;  // as `trace --json` has it
  std::vector<NamedFigure> figures;
  std::string answers = {};  // where the models are traced to different answers, a sentence that says so
};

struct ComparisonRecord {
  Comparison compared;
  std::string prompt;     // whose heads are shown
  std::string loss_data;  // what the losses were measured on, in words
  std::vector<TaskRecord> tasks;
  std::optional<TraceRecord> trace;
  nlohmann::json
      viewer;  // what the viewer in the page reads (docs/serve.md, The page in a file); null: there is none
  nlohmann::json protocol;
};

}  // namespace openwork
