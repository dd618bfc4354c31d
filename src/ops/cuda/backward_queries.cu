// The backward pass by query rows: dq, each row's D and G, and the parts of dbias and didle. A block walks
// the key tiles up to the diagonal as forward does, thirty-two keys at a time.
//   dS_ij = P_ij (z_ij dA_ij - D_i) + dg_ij            dq_i = c sum_j dS_ij k_j
//   logprob and idle also subtract w_i P_ij G_i, G_i = sum_j dg_ij, known only at the end of the row; so the
//   walk sums P_ij k_j beside it and takes w_i G_i times that off. Where d is too large to hold both sums, a
//   first walk makes G_i alone (Walk::kGateSum) and a second one the gradient (Walk::kGivenGateSum).
// What is left in RowState is all that the pass by keys needs of a row.
#include "ops/cuda/backward.cuh"

namespace openwork::cuda {
namespace {

enum class Walk { kWhole, kGateSum, kGivenGateSum };

template <class Element, int D, int kWarps, bool kSampled, bool kOfRow, Walk walk>
struct QueryBlock {
  using Shape = BackwardShape<D>;
  static constexpr int kKeys = Shape::kTileRows, kThreads = kWarps * 32, kStep = Shape::kStep;
  static constexpr int kTileBytes = kKeys * kPitch<D> * 2;
  static constexpr bool kSumKeys = kOfRow && walk == Walk::kWhole;

  const Backward& a;
  uint32_t keys, values;
  TileLoader<Element, D, kKeys, kThreads, Order::kOctets> k, v;
  int lane, first_row;
  float c2, weight, floor;
  uint64_t counters[2];
  RowState state[2];
  LeftRows<D, Shape::kHoldRows> q, dy;
  float dq[walk == Walk::kGateSum ? 1 : D / 8][4] = {};
  float key_sum[kSumKeys ? D / 8 : 1][4] = {};  // sum_j P_ij k_j
  float gate_sum[2] = {0, 0};                   // this lane's share of G_i

  __device__ __forceinline__ void load(int tile) {
    const int stage = (tile & 1) * kTileBytes;
    k.load(keys + stage, tile * kKeys);
    v.load(values + stage, tile * kKeys);
    commit_copies();
  }

  __device__ __forceinline__ void take(int tile, bool wide) {
#pragma unroll 1
    for (int step = 0; step < kKeys; step += kStep) {
      const int first_key = tile * kKeys + step;
      if (first_key > first_row + 15) return;
      const uint32_t k_rows = keys + (tile & 1) * kTileBytes + step * kPitch<D> * 2;
      const uint32_t v_rows = values + (tile & 1) * kTileBytes + step * kPitch<D> * 2;
      float S[kStep / 8][4], dA[kStep / 8][4];
      multiply_by_rows<Element, D>(S, q, right_address<D>(k_rows, lane));
      multiply_by_rows<Element, D>(dA, dy, right_address<D>(v_rows, lane));
      const bool inside = first_key + kStep - 1 <= first_row && first_row + 16 <= a.problem.T;
      if (!inside) mask_scores<Order::kOctets>(S, first_key, first_row + lane / 4, a.problem.T);
      const uint64_t octet = first_key / kGateKeys;
      const RowNoise<kSampled, kStep / 8> noise{a.problem, {counters[0] + octet, counters[1] + octet}};
      differentiate_rows<kSampled, Wanted::kWeightsAndGates>(a.problem, S, dA, state, c2, noise, weight,
                                                             floor, wide, gate_sum);
      if constexpr (walk != Walk::kGateSum) {
#pragma unroll
        for (int n = 0; n < kStep / 8; n += 2) {
          const Fragment ds = pack_left<Element>(dA[n], dA[n + 1]);
          const uint32_t columns = left_address<D>(k_rows, lane) + n * 8 * kPitch<D> * 2;
          if constexpr (kSumKeys) {
            const Fragment P = pack_left<Element>(S[n], S[n + 1]);
            multiply_by_columns<Element, D>(dq, ds, key_sum, P, columns);
          } else {
            multiply_by_columns<Element, D>(dq, ds, columns);
          }
        }
      }
    }
  }
};

// D_i = dy_i . y_i of a warp's sixteen rows, two lanes to a row; dy from its tile, y from global memory.
template <class Element, int D>
__device__ __forceinline__ float multiply_rows(const Element* dy, const Element* y, int64_t stride, int first,
                                               int T, int lane) {
  const int row = lane / 2;
  float sum = 0;
  if (first + row < T) {
    const Element* y_row = y + (first + row) * stride;
#pragma unroll 4
    for (int chunk = lane & 1; chunk < D / 8; chunk += 2) {
      const uint4 left = *reinterpret_cast<const uint4*>(dy + row * kPitch<D> + chunk * 8);
      const uint4 right = *reinterpret_cast<const uint4*>(y_row + chunk * 8);
      const Element* x = reinterpret_cast<const Element*>(&left);
      const Element* z = reinterpret_cast<const Element*>(&right);
#pragma unroll
      for (int e = 0; e < 8; ++e) sum = fmaf(static_cast<float>(x[e]), static_cast<float>(z[e]), sum);
    }
  }
  return sum + __shfl_xor_sync(kWholeWarp, sum, 1);
}

template <class Element, int D, int kWarps, bool kSampled, bool kOfRow, Walk walk>
__global__ void __launch_bounds__(kWarps * 32, BackwardShape<D>::kQueryBlocks)
    query_kernel(const __grid_constant__ Backward a) {
  using Block = QueryBlock<Element, D, kWarps, kSampled, kOfRow, walk>;
  extern __shared__ __align__(16) char shared[];
  const Problem& p = a.problem;
  const int blocks = (p.T + kWarps * 16 - 1) / (kWarps * 16);
  const Turn turn = take_turn(blockIdx.x, blocks, p.B * p.H, p.heads_at_once);
  const int head = turn.head, block = blocks - 1 - turn.rank, b = head / p.H, h = head % p.H;
  const int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
  const int kv_head = h / (p.H / p.key_heads), block_row = block * kWarps * 16;

  // 1. This warp's rows of q and dy; what is known of them before the walk.
  Element* q_tile = reinterpret_cast<Element*>(shared);
  Element* dy_tile = q_tile + kWarps * 16 * kPitch<D>;
  Element* own_q = q_tile + warp * 16 * kPitch<D>;
  Element* own_dy = dy_tile + warp * 16 * kPitch<D>;
  const uint32_t keys = shared_address(dy_tile + kWarps * 16 * kPitch<D>);
  Block run{a,
            keys,
            keys + 2 * Block::kTileBytes,
            {head_of<Element>(p.k, b, kv_head), p.k.row, p.T},
            {head_of<Element>(p.v, b, kv_head), p.v.row, p.T},
            lane,
            block_row + warp * 16,
            p.scale * kLog2E,
            penalty_weight(a, b, h),
            hard_floor(p, h)};
  load_tile<Element, D, kWarps * 16, kWarps * 32, Order::kPlain>(
      shared_address(q_tile), head_of<Element>(p.q, b, h), p.q.row, block_row, p.T);
  load_tile<Element, D, kWarps * 16, kWarps * 32, Order::kPlain>(
      shared_address(dy_tile), head_of<Element>(a.grad_out, b, h), a.grad_out.row, block_row, p.T);
  run.load(0);
  wait_for_copies();
  __syncthreads();
  run.q.take(shared_address(own_q), lane);
  run.dy.take(shared_address(own_dy), lane);
  const float D_row =
      multiply_rows<Element, D>(own_dy, head_of<Element>(a.out, b, h), a.out.row, run.first_row, p.T, lane);
  const NoiseRows noise = noise_rows(p, b, h);
  RowState* states = a.states + static_cast<int64_t>(head) * p.T;
  bool wide = false;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = run.first_row + lane / 4 + 8 * r;
    run.counters[r] = noise.row(row);
    RowState& state = run.state[r];
    const float D_i = __shfl_sync(kWholeWarp, D_row, (lane / 4 + 8 * r) * 2);
    if (walk == Walk::kGivenGateSum && row < p.T) {
      state = states[row];
    } else {
      const int64_t place = static_cast<int64_t>(head) * p.T + row;
      state.log_sum_exp2 = row < p.T ? a.log_sum_exp[place] * kLog2E : 0.f;
      state.offset2 = row_offset2(p, h, state.log_sum_exp2);
      state.odds = exp2_fast(state.offset2);
      state.row_term = D_i;
    }
    wide |= state.offset2 > kWideOffset2;
  }
  wide = __any_sync(kWholeWarp, wide);

  // 2. The walk.
  const int tiles = (min(block_row + kWarps * 16, p.T) - 1) / Block::kKeys + 1;
  for (int tile = 0; tile < tiles; ++tile) {
    wait_for_copies();
    __syncthreads();
    if (tile + 1 < tiles) run.load(tile + 1);
    if (tile * Block::kKeys <= run.first_row + 15 && run.first_row < p.T) run.take(tile, wide);
  }

  // 3. Rows out.
  float G[2];  // w_i G_i, once their sums are taken
  float gates = 0, idle = 0;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = run.first_row + lane / 4 + 8 * r;
    G[r] = sum_over_row(run.gate_sum[r]);
    if (row >= p.T) G[r] = 0;
    const GateSumWeights weights = gate_sum_weights(p, h, run.state[r].log_sum_exp2);
    gates += G[r];
    idle -= weights.idle * G[r];
    G[r] *= weights.row;
    if (walk != Walk::kGivenGateSum && row < p.T && lane % 4 == 0) {
      RowState state = run.state[r];
      state.row_term += G[r];
      states[row] = state;
    }
  }
  if constexpr (Block::kSumKeys) {
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
#pragma unroll
      for (int c = 0; c < 4; ++c) run.dq[n][c] -= G[c / 2] * run.key_sum[n][c];
    }
  }
  if constexpr (walk != Walk::kGateSum) {
    store_sums<Element, D>(own_q, run.dq, lane / 4, lane / 4 + 8, p.scale, p.scale,
                           head_of<Element>(a.grad_q, b, h), a.grad_q.row, run.first_row, p.T);
  }

  // 4. This warp's share of dbias and didle.
  if (walk == Walk::kGivenGateSum || run.first_row >= p.T) return;
  store_gate_parts(a, head, run.first_row, gates, idle);
}

template <class Element, int D, bool kSampled, bool kOfRow, Walk walk>
cudaError_t launch(const Backward& a, cudaStream_t stream) {
  constexpr int kWarps = BackwardShape<D>::kWarps;
  const auto kernel = query_kernel<Element, D, kWarps, kSampled, kOfRow, walk>;
  constexpr int kBytes = BackwardShape<D>::kQueryBytes;
  const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (error != cudaSuccess) return error;
  const unsigned blocks = (a.problem.T + kWarps * 16 - 1) / (kWarps * 16);
  kernel<<<blocks * a.problem.B * a.problem.H, kWarps * 32, kBytes, stream>>>(a);
  return cudaGetLastError();
}

}  // namespace

template <class Element, int D>
cudaError_t launch_queries(const Backward& a, cudaStream_t stream) {
  const Problem& p = a.problem;
  if (!p.of_row) {
    return p.sampled ? launch<Element, D, true, false, Walk::kWhole>(a, stream)
                     : launch<Element, D, false, false, Walk::kWhole>(a, stream);
  }
  if constexpr (D <= 128) {
    return p.sampled ? launch<Element, D, true, true, Walk::kWhole>(a, stream)
                     : launch<Element, D, false, true, Walk::kWhole>(a, stream);
  } else {
    const cudaError_t error = p.sampled ? launch<Element, D, true, true, Walk::kGateSum>(a, stream)
                                        : launch<Element, D, false, true, Walk::kGateSum>(a, stream);
    if (error != cudaSuccess) return error;
    return p.sampled ? launch<Element, D, true, true, Walk::kGivenGateSum>(a, stream)
                     : launch<Element, D, false, true, Walk::kGivenGateSum>(a, stream);
  }
}

cudaError_t launch_fast_queries(const Backward& a, cudaStream_t stream) {
  OPENWORK_FOR_SIZE(launch_queries, a, stream)
}

}  // namespace openwork::cuda
