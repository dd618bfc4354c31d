#include "train/loop_end.h"

namespace openwork {

LoopResult describe_end(LoopResult result, const RunClock& clock, int64_t steps, int64_t tokens_per_step) {
  result.signal = clock.finished(steps) ? 0 : clock.signal();
  result.steps = steps;
  result.tokens = steps * tokens_per_step;
  result.seconds = clock.seconds();
  result.tokens_per_second = result.seconds > 0 ? static_cast<double>(result.tokens) / result.seconds : 0;
  return result;
}

}  // namespace openwork
