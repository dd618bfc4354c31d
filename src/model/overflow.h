// Finite weights can still make numbers that are not: a product too large for its dtype. A result computed from
// them would be wrong without saying so.
#pragma once

namespace openwork {

// Whether a Transformer refuses what its last layer writes and logits that are not finite (bad input). Off unless a verb that reports what a
// model computes turns it on; training has its own check, which need not wait for a GPU every step.
void refuse_overflow(bool on);

}  // namespace openwork
