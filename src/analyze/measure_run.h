// How a training run is measured (train/sparsify.h asks): on all held-out blocks before and after it, and on
// the first few of them on its way.
#pragma once
#include "analyze/held_out.h"
#include "train/sparsify.h"

namespace openwork {

inline constexpr int64_t kBlocksOnTheWay = 128;  // cheap, always the same

// `blocks` must outlive what is returned.
Evaluate make_evaluate(const TokenBlocks& blocks, const HeldOutOptions& options);

}  // namespace openwork
