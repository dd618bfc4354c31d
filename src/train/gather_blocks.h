// Held-out blocks (text/documents.h) as tensors for a model.
#pragma once
#include <ATen/ATen.h>

#include "text/documents.h"

namespace openwork {

// Tokens of `count` blocks from `first` on, shifted by `shift`: [count, context], int64 on the CPU.
inline at::Tensor gather_blocks(const TokenBlocks& blocks, int64_t first, int64_t count, int64_t shift) {
  const int32_t* start = blocks.tokens.data() + first * blocks.context + shift;
  const auto options = at::TensorOptions().dtype(at::kInt);
  return at::from_blob(const_cast<int32_t*>(start), {count, blocks.context}, options).to(at::kLong);
}

}  // namespace openwork
