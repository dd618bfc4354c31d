// The backward pass in one walk, for Hopper: dk, dv and dq together, so that every edge's noise is drawn and
// its gradients are made once. A block (one warpgroup) takes 64 keys of one key/value head and walks the query
// tiles from the diagonal on; as in backward_keys.cu everything is transposed, keys as rows.
//   S^T = K Q^T, dA^T = V dY^T;  dv += (P z)^T dY,  dk += dS^T Q;  dq += dS K, dS by way of shared memory
// dq is summed over key blocks by float32 additions in global memory, in no fixed order: where results must
// repeat bit for bit the two passes of backward_queries.cu and backward_keys.cu run instead.
// For logprob the pass by queries has run before, for G_i alone.
#include "ops/cuda/backward.cuh"
#include "ops/cuda/warpgroup.cuh"

namespace openwork::cuda {
namespace {

template <int D>
struct FusedShape {
  static constexpr int kTile = kPanelTileBytes<D>, kScores = kGroupRows * kGroupRows * 2;
  static constexpr int kStates = 2 * kGroupRows * static_cast<int>(sizeof(RowState));
  static constexpr int kBytes = 6 * kTile + kScores + kStates + 1024;  // the last: room to align
};

__device__ __forceinline__ void add_pair(float* to, float first, float second) {
  asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(first), "f"(second) : "memory");
}

template <class Element, int D, bool kSampled>
struct FusedBlock {
  static constexpr int kTile = FusedShape<D>::kTile, kTiles = kGroupRows / 8;

  const Backward& a;
  uint32_t shared;  // k, v, two tiles of q, two of dy, dS, states
  const RowState* states;
  int b, lane, warp, first_key;  // first_key of this warp
  float c2;
  float dk[D / 8][4] = {}, dv[D / 8][4] = {};
  float gate_sum = 0;

  __device__ __forceinline__ uint32_t q_tile(int stage) const { return shared + (2 + stage) * kTile; }
  __device__ __forceinline__ uint32_t dy_tile(int stage) const { return shared + (4 + stage) * kTile; }
  __device__ __forceinline__ uint32_t score_tile() const { return shared + 6 * kTile; }

  __device__ __forceinline__ void load(int h, int tile, int stage) {
    const Problem& p = a.problem;
    const int first = tile * kGroupRows, row = threadIdx.x;
    load_panels<Element, D, Order::kPlain>(q_tile(stage), head_of<Element>(p.q, b, h), p.q.row, first, p.T);
    load_panels<Element, D, Order::kPlain>(dy_tile(stage), head_of<Element>(a.grad_out, b, h), a.grad_out.row,
                                           first, p.T);
    if (row < kGroupRows) {
      const bool present = first + row < p.T;
      const int64_t place = (static_cast<int64_t>(b) * p.H + h) * p.T + (present ? first + row : 0);
      copy_async(shared_address(states + stage * kGroupRows + row), a.states + place, present);
    }
    commit_copies();
  }

  // dS^T to shared memory, this warp's sixteen keys as rows, so that the whole group can read it.
  __device__ __forceinline__ void share_scores(const Fragment (&ds)[4]) const {
    const int row = warp * 16 + (lane & 15);
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      store_matrices(score_tile() + panel_offset(row, n * 2 + (lane >> 4)), ds[n]);
    }
  }

  // dq of the tile's queries, this warp's sixteen of them, added to what other key blocks give.
  __device__ __forceinline__ void add_queries(const float (&dq)[D / 8][4], int h, int tile) const {
    const Problem& p = a.problem;
    const int row = tile * kGroupRows + warp * 16 + lane / 4;
    float* to = a.query_sums + ((static_cast<int64_t>(b) * p.H + h) * p.T + row) * D + (lane & 3) * 2;
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
      if (row < p.T) add_pair(to + n * 8, dq[n][0], dq[n][1]);
      if (row + 8 < p.T) add_pair(to + 8 * D + n * 8, dq[n][2], dq[n][3]);
    }
  }

  __device__ __forceinline__ void take(int h, int tile, int stage, float weight, bool wide) {
    const uint64_t k = describe_tile(shared), v = describe_tile(shared + kTile);
    const uint64_t q = describe_tile(q_tile(stage)), dy = describe_tile(dy_tile(stage));
    const int first_query = tile * kGroupRows;
    // 1. Scores and the gradients of gated probabilities.
    float S[kTiles][4], dA[kTiles][4];
    fence_group();
    multiply_rows<Element, D>(S, k, q);
    multiply_rows<Element, D>(dA, v, dy);
    wait_group<0>();
    hold(S);
    hold(dA);
    // 2. Edge by edge.
    if (first_key + 15 > first_query || first_query + kGroupRows > a.problem.T) {
      mask_columns(S, first_key, first_query, a.problem.T);
    }
    const NoiseRows noise = noise_rows(a.problem, b, h);
    const int g = lane >> 2;
    const uint64_t counter = noise.row(first_query + 2 * (lane & 3) + (g & 1)) + (first_key / 4 + g / 2);
    const RowState* rows = states + stage * kGroupRows;
    if (wide) {
      differentiate_columns<kSampled, true>(a.problem, S, dA, rows, c2, counter, noise.quads, weight, gate_sum);
    } else {
      differentiate_columns<kSampled, false>(a.problem, S, dA, rows, c2, counter, noise.quads, weight, gate_sum);
    }
    // 3. The three sums.
    Fragment gated[4], ds[4];
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      gated[n] = pack_left<Element>(S[2 * n], S[2 * n + 1]);
      ds[n] = pack_left<Element>(dA[2 * n], dA[2 * n + 1]);
    }
    share_scores(ds);
    show_writes();
    __syncthreads();
    float dq[D / 8][4];
    fence_group();
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      multiply_shared<Element, true, true>(dq, sixteen_rows(describe_tile(score_tile()), n), sixteen_rows(k, n), n != 0);
    }
    commit_group();
    multiply_columns<Element, D>(dv, gated, dy);
    multiply_columns<Element, D>(dk, ds, q);
    wait_group<2>();
    hold(dq);
    add_queries(dq, h, tile);
    wait_group<0>();
    hold(dv);
    hold(dk);
  }
};

template <class Element, int D, bool kSampled>
__global__ void __launch_bounds__(kGroupThreads, 2) fused_kernel(const __grid_constant__ Backward a) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Block = FusedBlock<Element, D, kSampled>;
  extern __shared__ char unaligned[];
  const uint32_t start = shared_address(unaligned), shared = (start + 1023) & ~1023u;
  char* pointer = unaligned + (shared - start);
  const Problem& p = a.problem;
  const int blocks = (p.T + kGroupRows - 1) / kGroupRows;
  const int block = blockIdx.x % blocks, head = blockIdx.x / blocks;  // the longest walks of a head first
  const int b = head / p.key_heads, kv_head = head % p.key_heads, group = p.H / p.key_heads;
  const int warp = threadIdx.x / 32, lane = threadIdx.x & 31, block_key = block * kGroupRows;
  const auto* states = reinterpret_cast<const RowState*>(pointer + 6 * Block::kTile + FusedShape<D>::kScores);
  Block run{a, shared, states, b, lane, warp, block_key + warp * 16, p.scale * kLog2E};

  // 1. Keys, values, and the first queries.
  load_panels<Element, D, Order::kPairs>(shared, head_of<Element>(p.k, b, kv_head), p.k.row, block_key, p.T);
  load_panels<Element, D, Order::kPairs>(shared + Block::kTile, head_of<Element>(p.v, b, kv_head), p.v.row,
                                         block_key, p.T);
  run.load(kv_head * group, block, 0);

  // 2. The walk, query head after query head.
  const double pairs = 0.5 * p.T * (p.T + 1.0);
  int stage = 0;
  for (int h = kv_head * group; h < (kv_head + 1) * group; ++h) {
    const float weight = static_cast<float>(a.grad_penalty[b * p.H + h] / pairs);
    run.gate_sum = 0;
    for (int tile = block; tile < blocks; ++tile, stage ^= 1) {
      wait_for_copies();
      show_writes();
      const int row = threadIdx.x;  // each thread asks about the state it copied itself
      const bool wide =
          __syncthreads_or(row < kGroupRows && states[stage * kGroupRows + row].offset2 > kWideOffset2);
      if (tile + 1 < blocks) {
        run.load(h, tile + 1, stage ^ 1);
      } else if (h + 1 < (kv_head + 1) * group) {
        run.load(h + 1, block, stage ^ 1);
      }
      run.take(h, tile, stage, weight, wide);
    }
    if (!p.logprob && run.first_key < p.T) {  // dbias: this warp's keys' share
      const float gates = sum_over_warp(run.gate_sum);
      const int64_t part = (static_cast<int64_t>(b) * p.H + h) * count_parts(p.T) + run.first_key / kPartRows;
      if (lane == 0) a.bias_parts[part] = gates;
    }
  }

  // 3. Rows out, through the tiles of q and dy, which nothing reads any more.
  __syncthreads();
  const int g = lane >> 2;
  Element* own = reinterpret_cast<Element*>(pointer + 2 * Block::kTile) + warp * 16 * kPitch<D>;
  store_sums<Element, D>(own, run.dk, 2 * g, 2 * g + 1, p.scale, p.scale, head_of<Element>(a.grad_k, b, kv_head),
                         a.grad_k.row, run.first_key, p.T);
  store_sums<Element, D>(own, run.dv, 2 * g, 2 * g + 1, 1.f, 1.f, head_of<Element>(a.grad_v, b, kv_head),
                         a.grad_v.row, run.first_key, p.T);
#endif
}

// Before the walk, for score: D_i = dy_i . y_i and what forward left of each row. Eight lanes to a row.
template <class Element, int D>
__global__ void __launch_bounds__(256) row_state_kernel(const __grid_constant__ Backward a) {
  const Problem& p = a.problem;
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x) / 8;
  const int64_t head = row / p.T;
  const int i = static_cast<int>(row % p.T), part = threadIdx.x % 8;
  if (head >= static_cast<int64_t>(p.B) * p.H) return;
  const int b = static_cast<int>(head / p.H), h = static_cast<int>(head % p.H);
  const Element* y = head_of<Element>(a.out, b, h) + i * a.out.row;
  const Element* dy = head_of<Element>(a.grad_out, b, h) + i * a.grad_out.row;
  float sum = 0;
#pragma unroll
  for (int chunk = part; chunk < D / 8; chunk += 8) {
    const uint4 left = *reinterpret_cast<const uint4*>(y + chunk * 8);
    const uint4 right = *reinterpret_cast<const uint4*>(dy + chunk * 8);
    const Element* x = reinterpret_cast<const Element*>(&left);
    const Element* z = reinterpret_cast<const Element*>(&right);
#pragma unroll
    for (int e = 0; e < 8; ++e) sum = fmaf(static_cast<float>(x[e]), static_cast<float>(z[e]), sum);
  }
#pragma unroll
  for (int offset = 4; offset > 0; offset /= 2) sum += __shfl_xor_sync(kWholeWarp, sum, offset);
  if (part != 0) return;
  RowState state;
  state.log_sum_exp2 = a.log_sum_exp[row] * kLog2E;
  state.row_term = sum;
  state.offset2 = bias_in_log2(p.bias[h]) + state.log_sum_exp2;
  state.odds = exp2_fast(state.offset2);
  a.states[row] = state;
}

// After the walk: dq = c times its sum, rounded.
template <class Element, int D>
__global__ void __launch_bounds__(256) round_kernel(const __grid_constant__ Backward a) {
  const Problem& p = a.problem;
  const int64_t piece = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;  // of eight numbers
  const int64_t row = piece / (D / 8), head = row / p.T;
  if (head >= static_cast<int64_t>(p.B) * p.H) return;
  const int chunk = static_cast<int>(piece % (D / 8));
  const float4* from = reinterpret_cast<const float4*>(a.query_sums + piece * 8);
  const float4 x = from[0], y = from[1];
  const float c = p.scale;
  const uint4 packed{pack<Element>(x.x * c, x.y * c), pack<Element>(x.z * c, x.w * c),
                     pack<Element>(y.x * c, y.y * c), pack<Element>(y.z * c, y.w * c)};
  Element* to = head_of<Element>(a.grad_q, static_cast<int>(head / p.H), static_cast<int>(head % p.H));
  *reinterpret_cast<uint4*>(to + row % p.T * a.grad_q.row + chunk * 8) = packed;
}

template <class Element, int D, bool kSampled>
cudaError_t launch_walk(const Backward& a, cudaStream_t stream) {
  const auto kernel = fused_kernel<Element, D, kSampled>;
  constexpr int kBytes = FusedShape<D>::kBytes;
  const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (error != cudaSuccess) return error;
  const unsigned blocks = (a.problem.T + kGroupRows - 1) / kGroupRows;
  kernel<<<blocks * a.problem.B * a.problem.key_heads, kGroupThreads, kBytes, stream>>>(a);
  return cudaGetLastError();
}

template <class Element, int D>
cudaError_t launch_size(const Backward& a, cudaStream_t stream) {
  const Problem& p = a.problem;
  const int64_t rows = static_cast<int64_t>(p.B) * p.H * p.T;
  cudaError_t error = cudaMemsetAsync(a.query_sums, 0, rows * D * sizeof(float), stream);
  if (error != cudaSuccess) return error;
  if (p.logprob) {
    error = launch_fast_gate_sums(a, stream);
  } else {
    row_state_kernel<Element, D><<<static_cast<unsigned>((rows * 8 + 255) / 256), 256, 0, stream>>>(a);
    error = cudaGetLastError();
  }
  if (error != cudaSuccess) return error;
  error = p.sampled ? launch_walk<Element, D, true>(a, stream) : launch_walk<Element, D, false>(a, stream);
  if (error != cudaSuccess) return error;
  round_kernel<Element, D><<<static_cast<unsigned>((rows * (D / 8) + 255) / 256), 256, 0, stream>>>(a);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_fused_backward(const Backward& a, cudaStream_t stream) {
  const bool half = a.problem.element == Element::kFloat16;
  switch (a.problem.d) {
    case 64: return half ? launch_size<__half, 64>(a, stream) : launch_size<__nv_bfloat16, 64>(a, stream);
    case 128: return half ? launch_size<__half, 128>(a, stream) : launch_size<__nv_bfloat16, 128>(a, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace openwork::cuda
