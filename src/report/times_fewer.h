// A ratio of counts in words, the right way round: "2.80 times fewer heads than", or where a model needs more
// "1.02 times as many heads as".
#pragma once
#include "base/interval.h"

namespace openwork {

struct TimesFewer {
  double times;
  Interval interval;
  const char *fewer, *than;  // "fewer" and "than", or "as many" and "as"
};

// `ratio` is how many times fewer; below 1 it and its interval are turned round.
TimesFewer say_times_fewer(double ratio, const Interval& interval);

}  // namespace openwork
