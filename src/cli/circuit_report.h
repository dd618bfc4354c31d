// openwork circuit's results as lines.
#pragma once
#include <vector>

#include "analyze/circuits/model_circuits.h"
#include "cli/common.h"

namespace openwork {

// The table, a row as each model is done, and what there is to say about each circuit below it.
void print_circuit_header(const CommonOptions& common);
void print_circuit_row(const CommonOptions& common, const ModelCircuits& model);
void print_circuit(const CommonOptions& common, const ModelCircuits& model, const CircuitSettings& settings);

// How many times fewer parts one model needs than another.
void print_ratio(const CommonOptions& common, const ModelRatio& ratio, const CircuitSettings& settings,
                 size_t seeds);

}  // namespace openwork
