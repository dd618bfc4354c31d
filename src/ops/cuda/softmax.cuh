// The softmax of a warp's sixteen query rows, taken in tile by tile. A lane has rows g and g + 8, four lanes
// share a row; scores come unscaled, everything here is in units of log 2 (x2 = score * c * log2 e).
#pragma once
#include "ops/cuda/gate.cuh"
#include "ops/cuda/tile.cuh"

namespace openwork::cuda {

__device__ __forceinline__ float max_over_row(float x) {
  x = fmaxf(x, __shfl_xor_sync(kWholeWarp, x, 1));
  return fmaxf(x, __shfl_xor_sync(kWholeWarp, x, 2));
}
__device__ __forceinline__ float sum_over_row(float x) {
  x += __shfl_xor_sync(kWholeWarp, x, 1);
  return x + __shfl_xor_sync(kWholeWarp, x, 2);
}
template <class Number>
__device__ __forceinline__ Number sum_over_warp(Number x) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(kWholeWarp, x, offset);
  return x;
}

// The largest of a tile's unscaled scores in a lane's two rows.
template <int kTiles>
__device__ __forceinline__ void find_largest(const float (&S)[kTiles][4], float (&largest)[2]) {
  largest[0] = largest[1] = -INFINITY;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    largest[0] = fmaxf(largest[0], fmaxf(S[n][0], S[n][1]));
    largest[1] = fmaxf(largest[1], fmaxf(S[n][2], S[n][3]));
  }
}

// Scores of keys after the row, or of rows past the end, become minus infinity.
template <Order order, int kTiles>
__device__ __forceinline__ void mask_scores(float (&S)[kTiles][4], int first_key, int row, int T) {
  const int to_lane = first_key + key_of_column<order>(0, threadIdx.x & 3, 0);
  // The last column seen, counted from the lane's first.
  const int last[2] = {row < T ? row - to_lane : -1, row + 8 < T ? row + 8 - to_lane : -1};
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      if (key_of_column<order>(n, 0, c & 1) > last[c / 2]) S[n][c] = -INFINITY;
    }
  }
}

}  // namespace openwork::cuda
