// The table between two models on the same prompts (METHOD 3): what changed, by how much, and whether prompts
// could have made the difference by chance.
#pragma once
#include <cstdint>
#include <vector>

#include "analyze/heads/head_records.h"

namespace openwork {

// Both statistics must come from the same prompts in the same order. Holm's correction is over the rows made.
std::vector<ComparisonRow> compare_statistics(const ModelStatistics& dense, const ModelStatistics& sparse,
                                              uint64_t seed);

}  // namespace openwork
