// The three phases of gated_inference on the GPU, for one query or several neighbouring ones; the kernels that are made
// of them are in inference.cu. Every sum has a fixed order. Names ending in 2 are in units of log 2.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "ops/cuda/inference.h"
#include "ops/cuda/softmax.cuh"

namespace openwork::cuda {

inline constexpr int kEight = 8;  // numbers of a row that a lane has
static_assert(kLargestSize <= 32 * kEight);

// Lanes that share a row: a power of two, so that they are neighbours in one warp.
__device__ __forceinline__ int lanes_of_row(int d) {
  int lanes = 1;
  while (lanes * kEight < d) lanes *= 2;
  return lanes;
}

// Where a block works: queries first .. of head h.
struct Place {
  int b, h, kv_head, first;
};
__device__ __forceinline__ Place find_place(const Inference& a, int head, int first) {
  const int b = head / a.H, h = head % a.H;
  const int kv_head = a.key_of_query ? static_cast<int>(a.key_of_query[h]) : h / (a.H / a.key_heads);
  return {b, h, kv_head, first};
}

template <class Number>
__device__ __forceinline__ void load_eight(float (&to)[kEight], const Number* from, bool present) {
  constexpr int kPiece = 16 / sizeof(Number);
  struct alignas(16) Piece {
    Number at[kPiece];
  };
#pragma unroll
  for (int n = 0; n < kEight; n += kPiece) {
    if (present) {
      const Piece piece = *reinterpret_cast<const Piece*>(from + n);
#pragma unroll
      for (int m = 0; m < kPiece; ++m) to[n + m] = static_cast<float>(piece.at[m]);
    } else {
#pragma unroll
      for (int m = 0; m < kPiece; ++m) to[n + m] = 0.f;
    }
  }
}

struct Larger {
  __device__ float operator()(float x, float y) const { return fmaxf(x, y); }
};
struct Sum {
  __device__ float operator()(float x, float y) const { return x + y; }
};

// x of all threads of a row, kRowWarps neighbouring warps, joined; every thread of the block takes part.
// `exchange`: a float for each warp of the block.
template <int kRowWarps, class Join>
__device__ float join_row(float x, float* exchange, Join join) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) x = join(x, __shfl_xor_sync(kWholeWarp, x, offset));
  if constexpr (kRowWarps > 1) {
    const int warp = threadIdx.x / 32, first = warp / kRowWarps * kRowWarps;
    __syncthreads();  // what was exchanged before has been read
    if (threadIdx.x % 32 == 0) exchange[warp] = x;
    __syncthreads();
    x = exchange[first];
    for (int w = 1; w < kRowWarps; ++w) x = join(x, exchange[first + w]);
  }
  return x;
}

// Phase 1: scores[r * pitch + j - from] of queries place.first + r and keys j of [from, to), kLowest2 where the query
// does not see the key.
template <class Number, int kQueries, int kWarps>
__device__ void find_scores(const Inference& a, const Place& place, int from, int to, float* scores,
                            int pitch) {
  constexpr int kAtOnce = kQueries == 1 ? 4 : 2;  // keys whose loads are under way together
  const int lanes = lanes_of_row(a.d), own = threadIdx.x & (lanes - 1), column = own * kEight;
  const int group = threadIdx.x / lanes, groups = kWarps * 32 / lanes;
  const float c2 = a.scale * kLog2E;
  const Number* keys = head_of<const Number>(a.k, place.b, place.kv_head) + column;
  float q[kQueries][kEight];
#pragma unroll
  for (int r = 0; r < kQueries; ++r) {
    const int row = place.first + r;
    load_eight(q[r], head_of<const Number>(a.q, place.b, place.h) + row * a.q.row + column,
               row < a.T && column < a.d);
  }
  // The loop's bounds are the same for all lanes: the shuffles need every one of them.
  for (int start = from; start < to; start += groups * kAtOnce) {
    float k[kAtOnce][kEight];
#pragma unroll
    for (int n = 0; n < kAtOnce; ++n) {
      const int j = start + n * groups + group;
      load_eight(k[n], keys + j * a.k.row, j < to && column < a.d);
    }
#pragma unroll
    for (int n = 0; n < kAtOnce; ++n) {
      const int j = start + n * groups + group;
      float S[kQueries];
#pragma unroll
      for (int r = 0; r < kQueries; ++r) {
        S[r] = 0;
#pragma unroll
        for (int e = 0; e < kEight; ++e) S[r] = fmaf(q[r][e], k[n][e], S[r]);
      }
      for (int offset = lanes / 2; offset > 0; offset /= 2) {
#pragma unroll
        for (int r = 0; r < kQueries; ++r) S[r] += __shfl_xor_sync(kWholeWarp, S[r], offset);
      }
#pragma unroll
      for (int r = 0; r < kQueries; ++r) {
        const bool seen = j <= place.first + r + (a.K - a.T);
        if (j < to && own == (r & (lanes - 1))) scores[r * pitch + j - from] = seen ? S[r] * c2 : kLowest2;
      }
    }
  }
}

// Where a row's gates are open: score2 - from2 > border2.
struct RowGate {
  float log_sum_exp2, from2, border2;
};

template <class Number>
__device__ float number_of_head(const void* numbers, int h, bool is_float) {
  return is_float ? static_cast<const float*>(numbers)[h]
                  : static_cast<float>(static_cast<const Number*>(numbers)[h]);
}

// A head that opens nothing, whatever its scores.
template <class Number>
__device__ bool is_closed(const Inference& a, int h) {
  return a.of_row && number_of_head<Number>(a.bias, h, a.float_gates) <= 0;
}

// As row_offset2 of gate.cuh.
template <class Number>
__device__ RowGate gate_of_row(const Inference& a, int h, float log_sum_exp2) {
  if (!a.gated) return {log_sum_exp2, 0.f, kLowest2};
  const float bias2 = bias_in_log2(number_of_head<Number>(a.bias, h, a.float_gates));
  if (!a.of_row) return {log_sum_exp2, 0.f, -bias2};
  if (!a.idle) return {log_sum_exp2, log_sum_exp2, -bias2};
  const float x2 = log_sum_exp2 - number_of_head<Number>(a.idle, h, a.float_gates) * kLog2E;
  return {log_sum_exp2, log_sum_exp2, -offset_beside_idle2(bias2, x2)};
}

// Phase 2, of `count` scores.
template <int kRowWarps>
__device__ float find_log_sum_exp2(const float* scores, int count, float* exchange) {
  const int thread = threadIdx.x % (kRowWarps * 32);
  float largest2 = kLowest2, sum = 0;
  for (int j = thread; j < count; j += kRowWarps * 32) largest2 = fmaxf(largest2, scores[j]);
  largest2 = join_row<kRowWarps>(largest2, exchange, Larger{});
  for (int j = thread; j < count; j += kRowWarps * 32) sum += exp2f(scores[j] - largest2);
  return largest2 + log2f(join_row<kRowWarps>(sum, exchange, Sum{}));
}

// Phase 3: the row's sum over its open keys, written out. `sums` [the block's warps][kLargestSize], in shared memory.
template <class Number, int kRowWarps>
__device__ void add_values(const Inference& a, const Place& place, int row, const float* scores, int count,
                           const RowGate& gate, float (*sums)[kLargestSize]) {
  constexpr int kAtOnce = 4;
  const int lanes = lanes_of_row(a.d), column = (threadIdx.x & (lanes - 1)) * kEight;
  const int thread = threadIdx.x % (kRowWarps * 32), group = thread / lanes, groups = kRowWarps * 32 / lanes;
  const Number* values = head_of<const Number>(a.v, place.b, place.kv_head) + column;
  float y[kEight] = {};
  for (int start = 0; start < count; start += groups * kAtOnce) {
    float weight[kAtOnce], v[kAtOnce][kEight];
#pragma unroll
    for (int n = 0; n < kAtOnce; ++n) {
      const int j = start + n * groups + group;
      const float score2 = j < count ? scores[j] : kLowest2;
      const bool open = j < count && score2 - gate.from2 > gate.border2;
      weight[n] = open ? exp2f(score2 - gate.log_sum_exp2) : 0.f;
    }
#pragma unroll
    for (int n = 0; n < kAtOnce; ++n) {
      const int j = start + n * groups + group;
      load_eight(v[n], values + j * a.v.row, weight[n] != 0.f && column < a.d);
    }
#pragma unroll
    for (int n = 0; n < kAtOnce; ++n) {
#pragma unroll
      for (int e = 0; e < kEight; ++e) y[e] = fmaf(weight[n], v[n][e], y[e]);
    }
  }
  const int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
  for (int offset = lanes; offset < 32; offset *= 2) {
#pragma unroll
    for (int e = 0; e < kEight; ++e) y[e] += __shfl_xor_sync(kWholeWarp, y[e], offset);
  }
  if (lane < lanes) {
#pragma unroll
    for (int e = 0; e < kEight; ++e) sums[warp][column + e] = y[e];
  }
  __syncthreads();
  if (row >= a.T) return;
  Number* out = head_of<Number>(a.out, place.b, place.h) + row * a.out.row;
  const int first = warp / kRowWarps * kRowWarps;
  for (int e = thread; e < a.d; e += kRowWarps * 32) {
    float sum = 0;
    for (int w = 0; w < kRowWarps; ++w) sum += sums[first + w][e];
    out[e] = static_cast<Number>(sum);
  }
}

template <class Number, int kQueries>
__device__ void write_zeros(const Inference& a, const Place& place) {
  for (int row = place.first; row < min(place.first + kQueries, a.T); ++row) {
    Number* out = head_of<Number>(a.out, place.b, place.h) + row * a.out.row;
    for (int e = threadIdx.x; e < a.d; e += blockDim.x) out[e] = static_cast<Number>(0.f);
  }
}

}  // namespace openwork::cuda
