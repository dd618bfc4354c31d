// A prompt with heads switched off: their output z is replaced (docs/method.md, 4), by zero or by what it is on
// another prompt of as many tokens, and everything behind them follows freely.
#pragma once
#include <optional>
#include <vector>

#include "base/head_place.h"
#include "model/transformer.h"

namespace openwork {

// The logits behind the prompt: [V], double, on the CPU. All heads are the model's; `instead` is empty (zero) or
// the other prompt, refused where its length differs.
Tensor switched_logits(const Transformer& model, const std::vector<int64_t>& ids,
                       const std::vector<HeadPlace>& off, const std::vector<int64_t>& instead = {});

}  // namespace openwork
