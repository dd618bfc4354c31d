// How much of what is moved to one token comes from each earlier one: absolute head shares of the graph's
// links, each as its part in what reaches the answer.
#pragma once
#include <cstdint>
#include <vector>

#include "analyze/trace/trace_records.h"

namespace openwork {

struct MovedFrom {
  int64_t position = 0;
  double share = 0;
};

// The tokens that something is moved from to position `to`, the largest share first; biases do not count.
std::vector<MovedFrom> find_moved(const TraceGraph& graph, int64_t to);

// The token that most is moved from, of those from position `first` on: the sink and other tokens that stand
// before the text are left aside while there is another.
int64_t choose_source(const std::vector<MovedFrom>& moved, int64_t first, int64_t to);

}  // namespace openwork
