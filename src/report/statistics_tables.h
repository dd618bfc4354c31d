// Head statistics as files: JSON (docs/json.md), CSV (one row per head), Markdown (what a person reads
// first).
#pragma once
#include <nlohmann/json.hpp>
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
  std::vector<ModelComparison> comparisons;
};

nlohmann::json to_json(const ModelStatistics& model);
nlohmann::json to_json(const ModelComparison& comparison);
nlohmann::json to_json(const StatisticsReport& report);  // without the protocol

std::string make_csv(const StatisticsReport& report);
std::string make_markdown(const StatisticsReport& report);

// How many heads of each class, in the order of HeadClass; in all, and by layer.
std::vector<int64_t> count_classes(const ModelStatistics& model);
std::vector<std::vector<int64_t>> count_classes_by_layer(const ModelStatistics& model);  // [layer][class]

// Heads with the largest mean of a statistic, largest first.
std::vector<const HeadRecord*> leading_heads(const ModelStatistics& model, Statistic statistic, size_t count);

// A number for tables: 0.0312, 1,024, 3.2e-05; a dash where there is none.
std::string format_value(double value);
std::string format_p(double p);  // "0.0012", "< 0.0001"

}  // namespace openwork
