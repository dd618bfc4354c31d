// Head statistics as files: JSON (docs/json.md), CSV (one row per head), Markdown (what a person reads
// first).
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "analyze/heads/head_statistics.h"
#include "analyze/heads/model_comparison.h"

namespace openwork {

nlohmann::json to_json(const ModelStatistics& model);
nlohmann::json to_json(const ModelComparison& comparison);
nlohmann::json to_json(const StatisticsReport& report);  // without the protocol

// For a protocol: prompts as they were given, rules, intervals, tests, thresholds.
nlohmann::json describe_statistics(const StatisticsOptions& statistics, const nlohmann::json& prompts);

std::string make_csv(const StatisticsReport& report);
std::string make_markdown(const StatisticsReport& report);

// A number for tables: 0.0312, 1,024, 3.2e-05; a dash where there is none.
std::string format_value(double value);
std::string format_interval(const ComparisonRow& row);  // "[0.012, 0.034]", "no interval"
std::string format_p(double p);                         // "0.0012", "< 0.0001"

}  // namespace openwork
