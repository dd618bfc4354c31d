// How a training run ended, reckoned in one way for every loop.
#pragma once
#include "train/loop.h"
#include "train/run_clock.h"

namespace openwork {

// `result` with steps, tokens, time, speed, and the signal where one ended the run early.
LoopResult describe_end(LoopResult result, const RunClock& clock, int64_t steps, int64_t tokens_per_step);

}  // namespace openwork
