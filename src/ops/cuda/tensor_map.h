// Rows as Hopper's copy engine is told of them.
#pragma once
#include "ops/cuda/launch.h"

namespace openwork {

// Boxes of 64 rows by 64 columns of [B, heads, T, d], d a multiple of 64, two-byte elements, laid out in panels
// (cuda/layout.h), on the current device; rows past the end read as zeros. Strides are positive where there is more than one.
cuda::TensorMap map_rows(const cuda::Rows& rows, cuda::Element element, int B, int heads, int T, int d);

}  // namespace openwork
