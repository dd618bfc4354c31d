// Models' circuits as the lines a person reads.
#pragma once
#include <string>
#include <vector>

#include "analyze/circuits/model_circuits.h"

namespace openwork {

// A table with a row for each model.
std::string format_circuit_header();
std::string format_circuit_row(const ModelCircuits& model);

// What there is to say about a model's circuit below the table: sizes by level, spare heads, roles.
std::vector<std::string> format_circuit(const ModelCircuits& model, const CircuitSettings& settings);

// How many times fewer parts one model needs than another, or as many.
std::vector<std::string> format_circuit_ratio(const ModelRatio& ratio, const CircuitSettings& settings,
                                              size_t seeds);

}  // namespace openwork
