// What `stats` and `compare` share: a model's statistics from its name, and what a protocol says about them.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "analyze/heads/head_statistics.h"
#include "cli/common.h"
#include "cli/prompt_source.h"

namespace openwork {

// Opens the model, tokenises the prompts its way and measures; `device` is told where it ran.
ModelStatistics measure_model(const std::string& name, const GivenPrompts& given, const CommonOptions& common,
                              StatisticsOptions statistics, std::string& device);

nlohmann::json describe_statistics(const StatisticsOptions& statistics, const GivenPrompts& given);

}  // namespace openwork
