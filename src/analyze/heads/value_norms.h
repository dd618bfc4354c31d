// How much a head writes where it looks at a token: |v_j W_O|, which weighs a pattern's columns by what they move.
#pragma once
#include "model/transformer.h"

namespace openwork {

// values [B, T, G, d] of a layer (Site::kValue) -> [B, H, T], float, where the model is.
Tensor value_norms(const Transformer& model, int64_t layer, const Tensor& values);

}  // namespace openwork
