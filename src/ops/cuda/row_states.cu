// What the fused backward pass must find of each query row when it starts, for Hopper: zeros where dq will be
// summed, and the row's state with
//   score          D_i = dy_i . y_i
//   logprob, idle  D_i + w_i G_i; G_i = sum_j dg_ij takes a walk over the keys of its own, and gives dbias
//                  and didle on the way
#include "ops/cuda/backward.cuh"
#include "ops/cuda/sizes.cuh"
#include "ops/cuda/warpgroup.cuh"

namespace openwork::cuda {
namespace {

// Eight neighbouring numbers of dy_i times those of y_i.
template <class Element>
__device__ __forceinline__ float multiply_eights(const uint4& left, const uint4& right) {
  const Element* x = reinterpret_cast<const Element*>(&left);
  const Element* y = reinterpret_cast<const Element*>(&right);
  float sum = 0;
#pragma unroll
  for (int e = 0; e < 8; ++e) sum = fmaf(static_cast<float>(x[e]), static_cast<float>(y[e]), sum);
  return sum;
}

// The part of a state that forward left.
__device__ __forceinline__ RowState find_state(const Backward& a, int h, int64_t row, float row_term) {
  RowState state;
  state.log_sum_exp2 = a.log_sum_exp[row] * kLog2E;
  state.row_term = row_term;
  state.offset2 = row_offset2(a.problem, h, state.log_sum_exp2);
  state.odds = exp2_fast(state.offset2);
  return state;
}

// D_i and zeros; row counts through all heads. `part` and `parts`: which of the lanes that share a row this
// is.
template <class Element, int D>
__device__ __forceinline__ float start_row(const Backward& a, int b, int h, int i, int64_t row, int part,
                                           int parts) {
  const Element* y = head_of<Element>(a.out, b, h) + i * a.out.row;
  const Element* dy = head_of<Element>(a.grad_out, b, h) + i * a.grad_out.row;
  float4* sums = reinterpret_cast<float4*>(a.query_sums + row * D);
  float sum = 0;
#pragma unroll
  for (int chunk = part; chunk < D / 8; chunk += parts) {
    sum += multiply_eights<Element>(*reinterpret_cast<const uint4*>(dy + chunk * 8),
                                    *reinterpret_cast<const uint4*>(y + chunk * 8));
    sums[chunk * 2] = sums[chunk * 2 + 1] = float4{0, 0, 0, 0};
  }
  return sum;
}

// score: eight lanes to a row.
template <class Element, int D>
__global__ void __launch_bounds__(256) row_kernel(const __grid_constant__ Backward a) {
  const Problem& p = a.problem;
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x) / 8, head = row / p.T;
  const int i = static_cast<int>(row % p.T), part = threadIdx.x % 8;
  if (head >= static_cast<int64_t>(p.B) * p.H) return;  // eight lanes together
  const int b = static_cast<int>(head / p.H), h = static_cast<int>(head % p.H);
  float sum = start_row<Element, D>(a, b, h, i, row, part, 8);
  const unsigned lanes = 0xffu << (threadIdx.x & 24);
#pragma unroll
  for (int offset = 4; offset > 0; offset /= 2) sum += __shfl_xor_sync(lanes, sum, offset);
  if (part == 0) a.states[row] = find_state(a, h, row, sum);
}

template <int D>
inline constexpr int kGateBytes = 6 * kPanelTileBytes<D> + 1024;  // the last: room to align

// logprob and idle: 64 query rows to a block; a walk over the keys as forward's, with dA beside S. Four lanes
// to a row.
template <class Element, int D, bool kSampled>
__global__ void __launch_bounds__(kGroupThreads, D == 64 ? 3 : 2)
    gate_kernel(const __grid_constant__ Backward a) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  constexpr int kTile = kPanelTileBytes<D>, kTiles = kGroupRows / 8;
  extern __shared__ char unaligned[];
  const uint32_t q_tile = (shared_address(unaligned) + 1023) & ~1023u, dy_tile = q_tile + kTile;
  const Problem& p = a.problem;
  const int blocks = (p.T + kGroupRows - 1) / kGroupRows;
  const int block = blocks - 1 - blockIdx.x % blocks;  // the longest walks of a head first
  const int head = blockIdx.x / blocks, b = head / p.H, h = head % p.H, kv_head = h / (p.H / p.key_heads);
  const int lane = threadIdx.x & 31, first_row = block * kGroupRows + threadIdx.x / 32 * 16;
  const int row = first_row + lane / 4;

  // 1. This group's queries, and the first keys.
  const int first = block * kGroupRows;
  PanelLoader<Element, D, Order::kPlain> q(head_of<Element>(p.q, b, h), p.q.row, first, p.T);
  PanelLoader<Element, D, Order::kPlain> dy(head_of<Element>(a.grad_out, b, h), a.grad_out.row, first, p.T);
  PanelLoader<Element, D, Order::kOctets> k(head_of<Element>(p.k, b, kv_head), p.k.row, 0, p.T);
  PanelLoader<Element, D, Order::kOctets> v(head_of<Element>(p.v, b, kv_head), p.v.row, 0, p.T);
  q.load_next(q_tile);
  dy.load_next(dy_tile);
  k.load_next(q_tile + 2 * kTile);
  v.load_next(q_tile + 4 * kTile);
  commit_copies();
  RowState state[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int i =
        min(row + 8 * r, p.T - 1);  // rows past the end take the last one's place, and write the same
    const int64_t place = static_cast<int64_t>(head) * p.T + i;
    state[r] = find_state(a, h, place, sum_over_row(start_row<Element, D>(a, b, h, i, place, lane % 4, 4)));
  }
  const bool wide = __any_sync(kWholeWarp, fmaxf(state[0].offset2, state[1].offset2) > kWideOffset2);
  const NoiseRows noise = noise_rows(p, b, h);
  const float weight = static_cast<float>(a.grad_penalty[head] / (0.5 * p.T * (p.T + 1.0)));

  // 2. The walk.
  float G[2] = {0, 0};
  for (int tile = 0; tile <= block; ++tile) {
    const uint32_t k_tile = q_tile + (2 + (tile & 1)) * kTile, v_tile = k_tile + 2 * kTile;
    wait_for_copies();
    show_writes();
    __syncthreads();
    if (tile < block) {
      k.load_next(q_tile + (2 + (~tile & 1)) * kTile);
      v.load_next(q_tile + (4 + (~tile & 1)) * kTile);
      commit_copies();
    }
    float S[kTiles][4], dA[kTiles][4];
    fence_group();
    multiply_rows<Element, D>(S, describe_tile(q_tile), describe_tile(k_tile));
    multiply_rows<Element, D>(dA, describe_tile(dy_tile), describe_tile(v_tile));
    commit_group();
    wait_group<0>();
    hold(S);
    hold(dA);
    if (tile == block || first_row + 16 > p.T) mask_scores(S, tile * kGroupRows, row, p.T);
    const uint64_t octet = tile * (kGroupRows / kGateKeys),
                   counters[2] = {noise.row(row) + octet, noise.row(row + 8) + octet};
    differentiate_rows<kSampled, true>(p, S, dA, state, p.scale * kLog2E, counters, weight, kSteep, wide, G);
  }

  // 3. Each row's D + w G, and this warp's share of dbias and didle. (Rows past the end have a G of 0.)
  float gates = 0, idle = 0;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    G[r] = sum_over_row(G[r]);
    const GateSumWeights weights = gate_sum_weights(p, h, state[r].log_sum_exp2);
    gates += G[r];
    idle -= weights.idle * G[r];
    state[r].row_term += weights.row * G[r];
    if (lane % 4 == 0 && row + 8 * r < p.T)
      a.states[static_cast<int64_t>(head) * p.T + row + 8 * r] = state[r];
  }
  if (first_row < p.T) store_gate_parts(a, head, first_row, gates, idle);
#else
  __trap();  // built without sm_90a: launch.h's users ask for this on Hopper only
#endif
}

template <class Element, int D, bool kSampled>
cudaError_t launch_gates(const Backward& a, cudaStream_t stream) {
  const auto kernel = gate_kernel<Element, D, kSampled>;
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kGateBytes<D>);
  if (error != cudaSuccess) return error;
  const unsigned blocks = (a.problem.T + kGroupRows - 1) / kGroupRows;
  kernel<<<blocks * a.problem.B * a.problem.H, kGroupThreads, kGateBytes<D>, stream>>>(a);
  return cudaGetLastError();
}

template <class Element, int D>
cudaError_t launch_size(const Backward& a, cudaStream_t stream) {
  const Problem& p = a.problem;
  if (p.of_row) {
    return p.sampled ? launch_gates<Element, D, true>(a, stream) : launch_gates<Element, D, false>(a, stream);
  }
  const int64_t rows = static_cast<int64_t>(p.B) * p.H * p.T;
  row_kernel<Element, D><<<static_cast<unsigned>((rows * 8 + 255) / 256), 256, 0, stream>>>(a);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_row_states(const Backward& a, cudaStream_t stream) {
  OPENWORK_FOR_GROUP_SIZE(launch_size, a, stream)
}

}  // namespace openwork::cuda
