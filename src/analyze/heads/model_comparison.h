// The table between two models on the same prompts (docs/method.md, 3): what changed, by how much, and
// whether prompts could have made the difference by chance.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "analyze/heads/head_records.h"

namespace openwork {

// Two models on the same prompts: the first of a run against another of it.
struct ModelComparison {
  std::string dense, sparse;  // names
  std::vector<ComparisonRow> rows;
};

struct StatisticsReport {
  std::vector<ModelStatistics> models;
  std::vector<ModelComparison> comparisons;  // of the first model with each of the others
};

// One more model, and where it is not the first, the table between the first and it.
void add_model(StatisticsReport& report, ModelStatistics model, uint64_t seed);

// Both statistics must come from the same prompts in the same order. Holm's correction is over the rows made.
std::vector<ComparisonRow> compare_statistics(const ModelStatistics& dense, const ModelStatistics& sparse,
                                              uint64_t seed);

}  // namespace openwork
