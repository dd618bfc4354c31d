// What openwork circuit finds in each model, and how it says so.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "analyze/circuits/circuit.h"
#include "cli/circuit_figure.h"
#include "cli/common.h"
#include "cli/task_options.h"

namespace openwork {

struct CircuitOptions {
  CommonOptions common;
  TaskOptions task;
  std::vector<std::string> models;
  std::string level, method, ablation, heads, mib, out, sweep;
  CircuitSettings settings;
  int64_t seeds = 1;
};

// One model's circuits, one per seed; the first is the one shown.
struct ModelCircuits {
  std::string name;
  CircuitPicture picture;
  std::vector<CircuitCurve> curves;
  nlohmann::json seeds = nlohmann::json::array(), files, named;
  double clean = 0, corrupt = 0, none = 0;
};

// Finds a model's circuits, one task drawn for each seed; fills in the protocol's device and task. Writes
// --mib.
ModelCircuits examine_model(const CircuitOptions& options, const std::string& name, Sweep& sweep,
                            nlohmann::json& protocol);

// The table, a row as each model is done, and what there is to say about each circuit below it.
void print_header(const CircuitOptions& options);
void print_row(const CircuitOptions& options, const ModelCircuits& model);
void print_circuit(const CircuitOptions& options, const ModelCircuits& model);

// The first model against each other one, at equal faithfulness: printed, and as JSON.
nlohmann::json compare_models(const CircuitOptions& options, const std::vector<ModelCircuits>& models);

nlohmann::json to_json(const CircuitOptions& options, const ModelCircuits& model);
inline nlohmann::json to_json(const Interval& interval) {
  return {interval.low, interval.high};
}

}  // namespace openwork
