// Faithfulness (METHOD 4): how much of a task's metric the first k parts of an ordering bring back when all
// others are ablated, f(k) = (m(C_k) - m(none)) / (m(all) - m(none)); the smallest k that reaches a
// threshold; intervals of both, with prompts resampled. Knows no model: it asks for the metric of the first
// k.
#pragma once
#include <cstdint>
#include <functional>
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

struct CircuitCurve {
  PromptMetrics all, none;         // metrics with every part, and with none
  std::vector<CurvePoint> points;  // by count, from 0 to all parts
  int64_t at_threshold = 0;        // the smallest count that reaches it
  Interval threshold_interval;     // of that count, prompts resampled
};

// The metrics of the first `count` parts, for each count.
using KeepFirst = std::function<std::vector<PromptMetrics>(const std::vector<int64_t>& counts)>;

// Up to kEveryCount parts every count is measured; beyond, counts grow by a quarter each, and the border
// found between two of them is closed in on by halving. Refuses a task that ablating everything does not
// hurt.
CircuitCurve trace_curve(const KeepFirst& keep_first, int64_t total, const PromptMetrics& all,
                         double threshold, uint64_t seed);
inline constexpr int64_t kEveryCount = 2048;

double faithfulness_of(const PromptMetrics& metrics, const PromptMetrics& none, const PromptMetrics& all);
Interval faithfulness_interval(const PromptMetrics& metrics, const PromptMetrics& none,
                               const PromptMetrics& all, uint64_t seed);

// The smallest count at the threshold in each of `draws` resamplings of the prompts; the same seed draws the
// same prompts for every curve with as many of them.
std::vector<int64_t> resample_threshold(const CircuitCurve& curve, double threshold, uint64_t seed,
                                        int64_t draws);

// How many times fewer parts `sparse` needs than `dense`, one curve of each per seed: the ratio of the summed
// counts, and its 95 % interval over prompts and seeds.
struct CircuitRatio {
  double ratio = 0;
  Interval interval;
};
CircuitRatio compare_curves(const std::vector<CircuitCurve>& dense, const std::vector<CircuitCurve>& sparse,
                            double threshold, uint64_t seed);

}  // namespace openwork
