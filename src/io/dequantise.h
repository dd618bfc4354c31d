// GGUF's quantised blocks to floats, exactly as ggml's reference does: every product and difference is
// rounded to float on its own, in its order (the file is compiled without fused multiply-add).
#pragma once
#include <cstddef>

#include "io/tensor_file.h"

namespace openwork {

// `block_count` blocks of a quantised dtype, dtype_block(dtype) values each, into `out`. No alignment needed.
void dequantise_blocks(DType dtype, const std::byte* blocks, size_t block_count, float* out);

}  // namespace openwork
