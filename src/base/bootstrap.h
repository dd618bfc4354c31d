// The bootstrap of any number that is made of many things (prompts, documents): resample them, compute it anew, take
// percentiles. base/interval.h has the quick form for ratios.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/interval.h"

namespace openwork {

// 95 % interval of `statistic` of `count` things, which gets those that were drawn; the same numbers for the same seed on
// every machine, and the same draws as bootstrap_ratio. Draws of which it is NaN are left out; all of them, or one thing alone:
// none (base/interval_text.h).
Interval bootstrap_statistic(size_t count,
                             const std::function<double(const std::vector<size_t>& drawn)>& statistic,
                             uint64_t seed, int64_t draws = 2000);

}  // namespace openwork
