#include "base/interval_text.h"

#include <fmt/format.h>

#include <cmath>

namespace openwork {

bool exists(const Interval& interval) {
  return !std::isnan(interval.low) && !std::isnan(interval.high);
}

std::string interval_text(const Interval& interval, int digits) {
  if (!exists(interval)) return "no interval";
  return fmt::format("[{:.{}f}, {:.{}f}]", interval.low, digits, interval.high, digits);
}

}  // namespace openwork
