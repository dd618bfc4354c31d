// Faithfulness (docs/method.md, 4): how much of a task's metric the first k parts of an ordering bring back
// when all others are ablated, f(k) = (m(C_k) - m(none)) / (m(all) - m(none)); the smallest k that reaches a
// threshold; intervals of both, with prompts resampled. Knows no model: it asks for the metric of the first
// k.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "base/interval.h"

namespace openwork {

using PromptMetrics = std::vector<double>;  // one per prompt

struct CurvePoint {
  int64_t count = 0;  // parts kept
  double faithfulness = 0;
  Interval interval;  // 95 %, prompts resampled
  PromptMetrics metrics;
};

// The faithfulnesses whose counts every curve has, whatever the threshold.
inline constexpr std::array<double, 4> kLevels = {0.5, 0.8, 0.9, 0.95};

struct LevelCount {
  double level = 0;
  int64_t count = 0;  // the smallest that reaches it
  Interval interval;  // 95 %, prompts resampled
};

struct CircuitCurve {
  PromptMetrics all, none;         // metrics with every part, and with none
  std::vector<CurvePoint> points;  // by count, from 0 to all parts
  int64_t at_threshold = 0;        // the smallest count that reaches it
  Interval threshold_interval;     // of that count, prompts resampled
  std::vector<LevelCount> at;      // one per level
  double area = 0;                 // under the curve, over the share of parts kept (curve_sizes.h)
  Interval area_interval;
  double mean_size = 0;  // the smallest count, mean over all thresholds from 0 to 1 (curve_sizes.h)
  Interval mean_size_interval;
};

// The metrics of the first `count` parts, for each count.
using KeepFirst = std::function<std::vector<PromptMetrics>(const std::vector<int64_t>& counts)>;

// Up to kEveryCount parts every count is measured; beyond, counts grow by a quarter each, and the border
// found between two of them is closed in on by halving. Checks the range. Points and at_threshold alone: what two
// orders are chosen by.
CircuitCurve measure_curve(const KeepFirst& keep_first, int64_t total, const PromptMetrics& all,
                           double threshold);
inline constexpr int64_t kEveryCount = 2048;

// Closes in on the borders of all levels too, and fills in what a curve says besides.
void finish_curve(CircuitCurve& curve, const KeepFirst& keep_first, double threshold, uint64_t seed);

// Both.
CircuitCurve trace_curve(const KeepFirst& keep_first, int64_t total, const PromptMetrics& all,
                         double threshold, uint64_t seed);

// Refuses a task that ablating everything does not hurt; `scope` says before it whose metrics these are.
void check_range(const PromptMetrics& none, const PromptMetrics& all, std::string_view scope = {});

double faithfulness_of(const PromptMetrics& metrics, const PromptMetrics& none, const PromptMetrics& all);
Interval faithfulness_interval(const PromptMetrics& metrics, const PromptMetrics& none,
                               const PromptMetrics& all, uint64_t seed);

}  // namespace openwork
