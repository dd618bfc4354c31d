// The norm of a gradient that ranks share, the same to the bit on any number of them (on the CPU): squares are
// added up in float64, block by block of ShardPlan::kBlock numbers counted from the buffer's start, then the
// blocks' sums in their order, the gates' last. No block is two ranks'.
#pragma once
#include "train/ranks.h"
#include "train/weights.h"

namespace openwork {

// 0-dimensional float32 on the weights' device; not finite where a gradient is not. All ranks call it, after
// each has the sum of its own gradients.
Tensor gradient_norm(const TrainedWeights& weights, Ranks* ranks);

}  // namespace openwork
