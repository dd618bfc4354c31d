// Intervals that are not there, and how intervals are written where people read them: "[3.2812, 3.2901]", or that there
// is none (in results: io/interval_json.h).
#pragma once
#include <limits>
#include <string>

#include "base/interval.h"

namespace openwork {

// Where one document or prompt alone was measured: resampling it says nothing. bootstrap_ratio gives it of one pair.
inline constexpr Interval kNoInterval = {std::numeric_limits<double>::quiet_NaN(),
                                         std::numeric_limits<double>::quiet_NaN()};
bool exists(const Interval& interval);

// "[low, high]" with that many digits behind the point; "no interval" where there is none.
std::string interval_text(const Interval& interval, int digits);

}  // namespace openwork
