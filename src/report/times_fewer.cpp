#include "report/times_fewer.h"

namespace openwork {

TimesFewer say_times_fewer(double ratio, const Interval& interval) {
  if (ratio <= 0 || ratio >= 1) return {ratio, interval, "fewer", "than"};
  return {1 / ratio, {1 / interval.high, 1 / interval.low}, "as many", "as"};
}

}  // namespace openwork
