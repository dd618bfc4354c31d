// Everything `compare` finds out about two models, as plain values: what the page, the JSON and the printed
// summary are made of. Parts that were not asked for are empty, and their sections are left out.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/interval.h"
#include "report/statistics_figures.h"
#include "report/statistics_tables.h"
#include "train/evaluation.h"

namespace openwork {

// One model's heads on the prompt that the page shows.
struct HeadPicture {
  std::string name, kind;  // L5H1; its class
  double mass = 0, density = 0;
  std::string png;  // empty: blank on this prompt
};
struct HeadSheet {
  std::string model;
  int64_t layers = 0, heads = 0;
  std::vector<HeadPicture> pictures;  // layer by layer
  int64_t left_out = 0;               // heads of the model that are not shown
};

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
};
struct TraceRecord {
  std::string from, to;  // the two tokens that the heads move something between, marked, with their positions
  double share = 0.8;
  bool features = false;  // transcoders' features are nodes; else whole MLPs
  std::vector<TracedModelRecord> models;
  nlohmann::json json;  // as `trace --json` has it
  std::vector<NamedFigure> figures;
};

struct SampleRecord {
  std::string prompt;
  std::vector<std::string> continuations;  // one per model
};

struct ComparisonRecord {
  std::vector<std::string> models;  // names as people read them
  std::string prompt;
  std::vector<std::vector<std::string>> tokens;  // of the prompt, by model, marked for print
  std::vector<Evaluation> losses;                // one per model
  std::string loss_data;  // what they were measured on
  std::vector<HeadSheet> sheets;
  StatisticsReport statistics;
  std::vector<NamedFigure> head_grid;  // the same heads as a figure: written, not on the page
  std::vector<NamedFigure> scatter;
  std::vector<TaskRecord> tasks;
  std::optional<TraceRecord> trace;
  std::vector<SampleRecord> samples;
  std::string sampling;  // "the most likely token each time"
  nlohmann::json protocol;
};

}  // namespace openwork
