// Numbers that the GPU's kernels and those who choose between them share; no CUDA header is needed to know them.
#pragma once

namespace openwork::cuda {

inline constexpr int kLargestSize = 256;  // numbers of a head, for any kernel

// gated_inference. Up to this many queries are few: a block takes them one by one, or eight together.
inline constexpr int kFewQueries = 16;
// Up to this many keys one kernel does it, the scores in shared memory.
inline constexpr int kShortCache = 2048;

inline constexpr int kMostNormBytes = 1 << 14;  // of a row that a norm's kernels take

}  // namespace openwork::cuda
