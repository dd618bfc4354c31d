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

// Scores of keys after the row, or of rows past the end, become minus infinity. Columns hold keys in kQuads
// order: n and n + 1 of lane t together have keys first_key + 8n + 4t .. + 3.
template <int kTiles>
__device__ __forceinline__ void mask_scores(float (&S)[kTiles][4], int first_key, int row, int T) {
  const int t = threadIdx.x & 3;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int key = first_key + (n / 2) * 16 + 4 * t + (n % 2) * 2 + (c & 1);
      const int i = row + (c / 2) * 8;
      if (key > i || i >= T) S[n][c] = -INFINITY;
    }
  }
}

// Each lane's own share of two rows' log-sum-exp; joined over the row at the end.
struct LogSumExp {
  float largest2[2] = {kLowest2, kLowest2}, sum[2] = {0, 0};

  template <int kTiles>
  __device__ __forceinline__ void take_in(const float (&S)[kTiles][4], float c2) {
    float largest[2];
    find_largest(S, largest);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float before = largest2[r];
      largest2[r] = fmaxf(before, largest[r] * c2);
      sum[r] *= exp2_fast(before - largest2[r]);
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        sum[r] += exp2_fast(fmaf(S[n][2 * r], c2, -largest2[r]));
        sum[r] += exp2_fast(fmaf(S[n][2 * r + 1], c2, -largest2[r]));
      }
    }
  }

  // log2 of the row's sum; of a row past the end, which has no edges, a number all the same.
  __device__ __forceinline__ float joined2(int r) const {
    const float whole = max_over_row(largest2[r]);
    return fmaxf(whole + log2f(sum_over_row(sum[r] * exp2_fast(largest2[r] - whole))), kLowest2);
  }
};

}  // namespace openwork::cuda
