// The rows of a layer's q, k or v projection by head, however the architecture lays them out.
#pragma once
#include "model/transformer.h"

namespace openwork {

enum class HeadInput { kQuery, kKey, kValue };

// [heads, d, D] of the weight, [heads, d] of the bias (which the layer must have).
Tensor head_rows(const Layer& layer, const ModelConfig& config, HeadInput input, bool bias);

}  // namespace openwork
