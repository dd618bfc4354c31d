// What a comparison shows of its models together: every head side by side, heads against heads, texts.
#pragma once
#include <string>
#include <vector>

#include "report/comparison_record.h"

namespace openwork {

// Every head of all models as a figure; written beside the page, which has pictures of its own.
std::vector<NamedFigure> draw_compared_heads(const ComparisonRecord& record);

// None where no model has one.
std::vector<NamedFigure> draw_compared_scatter(const ComparisonRecord& record);

// An opening as each model continues it; only those that all of them do.
struct Sample {
  std::string opening;
  std::vector<std::string> continuations;  // by model
};
std::vector<Sample> list_samples(const Comparison& comparison);

}  // namespace openwork
