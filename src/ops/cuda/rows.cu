// Norms of rows with the sums they are of, their gradients, and sums over rows: every number is read once and written
// once. A row is one to eight warps' and stays in registers between the sums over it and what is made of them.
// Gradients of weight and bias are sums over rows: each block walks many rows and leaves its own sums, and a second
// kernel adds those up in their order, so that the same call gives the same bits.
#include <type_traits>

#include "ops/cuda/rows.h"
#include "ops/cuda/vector.cuh"

namespace openwork::cuda {
namespace {

constexpr int kWarps = kThreads / 32;

template <typename E>
constexpr int kPerVector = 16 / static_cast<int>(sizeof(E));

// How a row's vectors of 16 bytes are spread: over W warps, V to a lane; a block has as many rows as it has room for.
template <int W, int V>
struct Spread {
  static constexpr int kRowWarps = W, kVectors = V, kLanes = 32 * W, kRows = 8 / W, kBlock = kRows * kLanes;
};

// Blocks that a multiprocessor should hold going back: what sums and vectors leave of its registers.
template <typename S>
constexpr int kBlocksBack = S::kVectors == 1   ? 800 / S::kBlock
                            : S::kVectors == 2 ? 2
                                               : 1;

// A lane of a row: its place, and sums over all lanes.
template <typename E, typename S>
struct Lane {
  int d;
  int row = static_cast<int>(threadIdx.x) / S::kLanes, lane = static_cast<int>(threadIdx.x) % S::kLanes;

  __device__ int place(int v) const { return (v * S::kLanes + lane) * kPerVector<E>; }
  __device__ bool has(int v) const { return place(v) < d; }

  // Sums of two numbers over the row, known to all its lanes; the whole block asks at once. `turn` alternates between
  // 0 and 1, so that a sum is not written before the one before it is read.
  __device__ float2 sum(float2 x, int turn) const {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
      x.x += __shfl_xor_sync(~0u, x.x, offset);
      x.y += __shfl_xor_sync(~0u, x.y, offset);
    }
    if constexpr (S::kRowWarps > 1) {
      __shared__ float2 parts[2][S::kRows][S::kRowWarps];
      if (lane % 32 == 0) parts[turn][row][lane / 32] = x;
      __syncthreads();
      x = parts[turn][row][0];
#pragma unroll
      for (int n = 1; n < S::kRowWarps; ++n) x.x += parts[turn][row][n].x, x.y += parts[turn][row][n].y;
    }
    return x;
  }
};

template <typename E, typename S>
__global__ void __launch_bounds__(S::kBlock) norm_kernel(Norm a) {
  constexpr int N = kPerVector<E>, V = S::kVectors;
  const Lane<E, S> lane{a.d};
  const int64_t row = static_cast<int64_t>(blockIdx.x) * S::kRows + lane.row;
  if (row >= a.rows) return;
  const int64_t start = row * a.d;
  float s[V][N] = {}, total = 0;
#pragma unroll
  for (int v = 0; v < V; ++v) {
    if (!lane.has(v)) continue;
    auto x = load<E, N>(static_cast<const E*>(a.x) + start + lane.place(v));
    if (a.added) {
      const auto added = load<E, N>(static_cast<const E*>(a.added) + start + lane.place(v));
#pragma unroll
      for (int n = 0; n < N; ++n) x.at[n] = narrow<E>(wide(x.at[n]) + wide(added.at[n]));
      store<E, N>(static_cast<E*>(a.sum) + start + lane.place(v), x);
    }
#pragma unroll
    for (int n = 0; n < N; ++n) total += s[v][n] = wide(x.at[n]);
  }
  const float mean = a.centred ? lane.sum({total, 0}, 0).x / static_cast<float>(a.d) : 0;
  float squares = 0;
#pragma unroll
  for (int v = 0; v < V; ++v) {
#pragma unroll
    for (int n = 0; n < N; ++n) squares += lane.has(v) ? (s[v][n] - mean) * (s[v][n] - mean) : 0;
  }
  const float scale = rsqrtf(lane.sum({squares, 0}, 1).x / static_cast<float>(a.d) + a.epsilon);
#pragma unroll
  for (int v = 0; v < V; ++v) {
    if (!lane.has(v)) continue;
    Vector<E, N> weight, bias, normal;
    if (a.weight) weight = load<E, N>(static_cast<const E*>(a.weight) + lane.place(v));
    if (a.bias) bias = load<E, N>(static_cast<const E*>(a.bias) + lane.place(v));
#pragma unroll
    for (int n = 0; n < N; ++n) {
      float y = (s[v][n] - mean) * scale;
      if (a.weight) y *= wide(weight.at[n]);
      if (a.bias) y += wide(bias.at[n]);
      normal.at[n] = narrow<E>(y);
    }
    store<E, N>(static_cast<E*>(a.normal) + start + lane.place(v), normal);
  }
  if (lane.lane == 0) a.mean[row] = mean, a.scale[row] = scale;
}

// The block's sums over its rows' lanes, to its row of `parts`.
template <typename E, typename S>
__device__ void leave_sums(const float (&own)[S::kVectors][kPerVector<E>], float* parts, int d) {
  constexpr int N = kPerVector<E>, V = S::kVectors;
  __shared__ float sums[S::kRows][S::kLanes * V * N];
  const Lane<E, S> lane{d};
  __syncthreads();
#pragma unroll
  for (int v = 0; v < V; ++v) {
#pragma unroll
    for (int n = 0; n < N; ++n) sums[lane.row][lane.place(v) + n] = own[v][n];
  }
  __syncthreads();
  for (int place = static_cast<int>(threadIdx.x); place < d; place += S::kBlock) {
    float sum = 0;
#pragma unroll
    for (int row = 0; row < S::kRows; ++row) sum += sums[row][place];
    parts[static_cast<int64_t>(blockIdx.x) * d + place] = sum;
  }
}

// A lane's part of what the backward pass reads of a row.
template <typename E, int V>
struct RowBack {
  Vector<E, kPerVector<E>> sum[V], grad[V], beside[V];
  float scale, mean;

  template <typename S>
  __device__ void read(const NormBackward& a, const Lane<E, S>& lane, int64_t row) {
    constexpr int N = kPerVector<E>;
    const int64_t start = row * a.d;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      if (!lane.has(v)) continue;
      sum[v] = load<E, N>(static_cast<const E*>(a.sum) + start + lane.place(v));
      grad[v] = load<E, N>(static_cast<const E*>(a.grad_normal) + start + lane.place(v));
      if (a.grad_sum) beside[v] = load<E, N>(static_cast<const E*>(a.grad_sum) + start + lane.place(v));
    }
    scale = a.scale[row], mean = a.mean[row];
  }
};

template <typename E, typename S, bool kCentred>
__global__ void __launch_bounds__(S::kBlock, kBlocksBack<S>) norm_backward_kernel(NormBackward a) {
  constexpr int N = kPerVector<E>, V = S::kVectors;
  const Lane<E, S> lane{a.d};
  float weight_sums[V][N] = {}, bias_sums[V][N] = {};  // an RMS norm has no bias
  Vector<E, N> weight[V];
#pragma unroll
  for (int v = 0; v < V; ++v) {
    if (a.weight && lane.has(v)) weight[v] = load<E, N>(static_cast<const E*>(a.weight) + lane.place(v));
  }
  const float share = 1 / static_cast<float>(a.d);
  int turn = 0;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * S::kRows; first < a.rows;
       first += static_cast<int64_t>(gridDim.x) * S::kRows, turn ^= 1) {
    const int64_t row = first + lane.row;
    const bool here = row < a.rows;  // where not, the block's other rows still want their sums
    RowBack<E, V> now = {};
    if (here) now.read(a, lane, row);
    const float scale = now.scale, shift = kCentred ? -now.mean * scale : 0;
    float2 slopes{0, 0};  // of the row: what lies along its normal, and their sum
#pragma unroll
    for (int v = 0; v < V; ++v) {
#pragma unroll
      for (int n = 0; n < N; ++n) {
        if (!here || !lane.has(v)) continue;
        const float normal = wide(now.sum[v].at[n]) * scale + shift, dy = wide(now.grad[v].at[n]);
        const float slope = a.weight ? dy * wide(weight[v].at[n]) : dy;
        weight_sums[v][n] += dy * normal, slopes.x += slope * normal;
        if constexpr (kCentred) bias_sums[v][n] += dy, slopes.y += slope;
      }
    }
    slopes = lane.sum(slopes, turn);
    const float along = slopes.x * share, mean = slopes.y * share;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      if (!here || !lane.has(v)) continue;
      Vector<E, N> out;
#pragma unroll
      for (int n = 0; n < N; ++n) {
        const float normal = wide(now.sum[v].at[n]) * scale + shift, dy = wide(now.grad[v].at[n]);
        const float slope = a.weight ? dy * wide(weight[v].at[n]) : dy;
        const float dx = scale * (slope - mean - normal * along);
        out.at[n] = narrow<E>(a.grad_sum ? dx + wide(now.beside[v].at[n]) : dx);
      }
      store<E, N>(static_cast<E*>(a.grad_x) + row * a.d + lane.place(v), out);
    }
  }
  if (a.grad_weight) leave_sums<E, S>(weight_sums, a.weight_parts, a.d);
  if constexpr (kCentred) {
    if (a.grad_bias) leave_sums<E, S>(bias_sums, a.bias_parts, a.d);
  }
}

// A block: 32 columns, summed over `blocks` rows of parts by all its warps and then over those.
constexpr int kPartWarps = 32;
template <typename E>
__global__ void add_parts_kernel(const float* parts, int blocks, int d, E* out, bool adds) {
  __shared__ float sums[kPartWarps][32];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int column = static_cast<int>(blockIdx.x) * 32 + lane;
  float sum = 0;
#pragma unroll 4
  for (int row = warp; row < blocks && column < d; row += kPartWarps)
    sum += parts[static_cast<int64_t>(row) * d + column];
  sums[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || column >= d) return;
  for (int n = 1; n < kPartWarps; ++n) sum += sums[n][lane];
  out[column] = narrow<E>(adds ? wide(out[column]) + sum : sum);
}

template <typename E>
void add_parts(const float* parts, int blocks, int d, void* out, bool adds, cudaStream_t stream) {
  add_parts_kernel<<<static_cast<unsigned>((d + 31) / 32), kPartWarps * 32, 0, stream>>>(
      parts, blocks, d, static_cast<E*>(out), adds);
}

// A block: 32 vectors of columns, its warps over rows.
template <typename E>
__global__ void column_sum_kernel(ColumnSum a) {
  constexpr int N = kPerVector<E>;
  __shared__ float sums[kWarps][32 * N];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int first = static_cast<int>(blockIdx.x) * 32 * N, column = first + lane * N;
  float own[N] = {};
  for (int64_t row = static_cast<int64_t>(blockIdx.y) * kWarps + warp; row < a.rows && column < a.d;
       row += static_cast<int64_t>(gridDim.y) * kWarps) {
    const auto x = load<E, N>(static_cast<const E*>(a.x) + row * a.d + column);
#pragma unroll
    for (int n = 0; n < N; ++n) own[n] += wide(x.at[n]);
  }
#pragma unroll
  for (int n = 0; n < N; ++n) sums[warp][lane * N + n] = own[n];
  __syncthreads();
  const int place = static_cast<int>(threadIdx.x);
  if (place >= 32 * N || first + place >= a.d) return;
  float sum = 0;
  for (int n = 0; n < kWarps; ++n) sum += sums[n][place];
  a.parts[static_cast<int64_t>(blockIdx.y) * a.d + first + place] = sum;
}

// Calls `launch` with the Spread of a row of d numbers: forward a warp's where its registers have room, going back with
// few vectors to a lane, which has sums to hold beside them.
template <typename E, bool kBack, typename Launch>
void with_spread(int d, Launch launch) {
  const int vectors = (d + kPerVector<E> - 1) / kPerVector<E>;  // at most 1,024: kMostNormBytes
  if (vectors <= 32) return launch(Spread<1, 1>{});
  if (vectors <= 64) return launch(std::conditional_t<kBack, Spread<2, 1>, Spread<1, 2>>{});
  if (vectors <= 96) return launch(std::conditional_t<kBack, Spread<3, 1>, Spread<1, 3>>{});
  if (vectors <= 128) return launch(std::conditional_t<kBack, Spread<4, 1>, Spread<1, 4>>{});
  if (vectors <= 256) return launch(Spread<8, 1>{});
  if (vectors <= 512) return launch(Spread<8, 2>{});
  return launch(Spread<8, 4>{});
}

}  // namespace

cudaError_t launch_norm(const Norm& a, cudaStream_t stream) {
  return with_element(a.element, [&](auto e) {
    with_spread<decltype(e), false>(a.d, [&](auto spread) {
      using S = decltype(spread);
      norm_kernel<decltype(e), S>
          <<<static_cast<unsigned>((a.rows + S::kRows - 1) / S::kRows), S::kBlock, 0, stream>>>(a);
    });
  });
}

int norm_blocks(const NormBackward& a, int multiprocessors) {
  int64_t blocks = 0;
  const auto count = [&](auto spread) {
    using S = decltype(spread);
    const int64_t wanted = (a.rows + S::kRows - 1) / S::kRows,
                  room = int64_t{multiprocessors} * kBlocksBack<S>;
    blocks = wanted < room ? wanted : room;
  };
  a.element == Element::kFloat32 ? with_spread<float, true>(a.d, count)
                                 : with_spread<__half, true>(a.d, count);
  return static_cast<int>(blocks);
}

cudaError_t launch_norm_backward(const NormBackward& a, cudaStream_t stream) {
  return with_element(a.element, [&](auto e) {
    using E = decltype(e);
    with_spread<E, true>(a.d, [&](auto spread) {
      using S = decltype(spread);
      const auto kernel = a.centred ? norm_backward_kernel<E, S, true> : norm_backward_kernel<E, S, false>;
      kernel<<<static_cast<unsigned>(a.blocks), S::kBlock, 0, stream>>>(a);
    });
    if (a.grad_weight) add_parts<E>(a.weight_parts, a.blocks, a.d, a.grad_weight, a.adds, stream);
    if (a.grad_bias) add_parts<E>(a.bias_parts, a.blocks, a.d, a.grad_bias, a.adds, stream);
  });
}

cudaError_t launch_column_sum(const ColumnSum& a, cudaStream_t stream) {
  return with_element(a.element, [&](auto e) {
    using E = decltype(e);
    const int columns = 32 * kPerVector<E>;
    const dim3 grid(static_cast<unsigned>((a.d + columns - 1) / columns), static_cast<unsigned>(a.blocks));
    column_sum_kernel<E><<<grid, kThreads, 0, stream>>>(a);
    add_parts<E>(a.parts, a.blocks, a.d, a.out, a.adds, stream);
  });
}

}  // namespace openwork::cuda
