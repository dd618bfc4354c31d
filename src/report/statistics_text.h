// Head statistics as the lines a person reads.
#pragma once
#include <string>
#include <vector>

#include "analyze/heads/head_statistics.h"
#include "analyze/heads/model_comparison.h"

namespace openwork {

// A model's classes by layer, its leading heads and how many are alike.
std::vector<std::string> format_statistics(const ModelStatistics& model);
// The table between two models.
std::vector<std::string> format_comparison(const ModelComparison& comparison);

}  // namespace openwork
