// The closing report of a run (docs/method.md, 2): the base, the dense control where there was one, and the
// result with hard gates, all on the same held-out blocks, with what the run cost and how it went.
// report.json and report.md in the run's folder; the program draws report.svg beside them.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "train/curves.h"
#include "train/evaluation.h"
#include "train/loop.h"

namespace openwork {

struct TrainedModel {
  Evaluation held_out;
  LoopResult training;
};
nlohmann::json to_json(const TrainedModel& model);
TrainedModel trained_model_from_json(const nlohmann::json& json);

// The held-out loss a run was to end at, gates hard (target.h).
struct RunTarget {
  std::string kind;  // base, control, or loss where a number was given
  double tolerance = 0, wanted = 0;
  double gap = 0;  // training loss less held-out loss at the last measurement on the way
};

struct FrontierPoint {
  std::string folder;  // within the run's
  double target = 0;   // held-out loss wanted
  TrainedModel model;
  int64_t tokens = 0;  // trained on since the base, those of the points before too
};

struct RunReport {
  std::string verb, model, command,
      result_name;  // result_name: "sparse", "control" of --gate none, or "trained" of pretrain
  std::optional<Evaluation> base;
  std::optional<TrainedModel> control;
  TrainedModel result;
  std::optional<RunTarget> target;      // none: pretrain, or the control's training loss was followed
  std::vector<FrontierPoint> frontier;  // empty: one run
  uint64_t seed = 0;
  TrainingCurves curves, control_curves;
  nlohmann::json options, data, protocol;
};

nlohmann::json to_json(const RunReport& report);
std::string to_markdown(const RunReport& report);
std::string to_text(const RunReport& report);  // the same table for a terminal

void write_report(const std::filesystem::path& folder, const RunReport& report);

}  // namespace openwork
