// Intervals by the bootstrap: resample whole documents (or prompts), recompute, take percentiles.
#pragma once
#include <cstdint>
#include <span>

namespace openwork {

struct Interval {
  double low = 0, high = 0;
};

// 95 % interval of sum(totals) / sum(weights) when the pairs are resampled with replacement; the same numbers
// for the same seed on every machine. One pair has none (base/interval_text.h).
Interval bootstrap_ratio(std::span<const double> totals, std::span<const double> weights, uint64_t seed,
                         int64_t draws = 2000);

}  // namespace openwork
