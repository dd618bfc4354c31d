// The backward pass by keys: dk and dv. A block takes a run of keys of one key/value head, sixteen per warp,
// and walks the query tiles from the diagonal on, over every query head that reads this key/value head.
// Everything is transposed, keys as rows, so that gated probabilities and score gradients come out of the
// first products in the layout the second ones take them in:
//   S^T = K Q^T, dA^T = V dY^T;   dv_j = sum_i P_ij z_ij dy_i,   dk_j = c sum_i dS_ij q_i
//   dS_ij = P_ij (z_ij dA_ij - row_term_i) + dg_ij,  row_term = D_i, or D_i + w_i G_i (logprob, idle)
#include "ops/cuda/backward.cuh"

namespace openwork::cuda {
namespace {

enum class Make { kBoth, kKeys, kValues };  // at d = 256 the two sums do not fit in registers together

template <class Element, int D, int kWarps, bool kSampled, Make make>
struct KeyBlock {
  using Shape = BackwardShape<D>;
  static constexpr int kQueries = Shape::kTileRows, kThreads = kWarps * 32, kStep = Shape::kStep;
  static constexpr int kTileBytes = kQueries * kPitch<D> * 2;

  const Backward& a;
  uint32_t queries, gradients;  // shared: two tiles each of q and dy
  const RowState* states;       // shared: two tiles
  int b, lane, first_key;       // first_key of this warp
  float c2;
  LeftRows<D, Shape::kHoldRows> k, v;
  float dk[make == Make::kValues ? 1 : D / 8][4] = {};
  float dv[make == Make::kKeys ? 1 : D / 8][4] = {};

  __device__ __forceinline__ void load(int h, int tile, int stage) {
    const Problem& p = a.problem;
    const int first = tile * kQueries;
    const TileLoader<Element, D, kQueries, kThreads, Order::kPlain> q(head_of<Element>(p.q, b, h), p.q.row,
                                                                      p.T);
    const TileLoader<Element, D, kQueries, kThreads, Order::kPlain> dy(head_of<Element>(a.grad_out, b, h),
                                                                       a.grad_out.row, p.T);
    q.load(queries + stage * kTileBytes, first);
    dy.load(gradients + stage * kTileBytes, first);
    const int row = threadIdx.x;
    if (row < kQueries) {
      const bool present = first + row < p.T;
      const int64_t place = (static_cast<int64_t>(b) * p.H + h) * p.T + (present ? first + row : 0);
      copy_async(shared_address(states + stage * kQueries + row), a.states + place, present);
    }
    commit_copies();
  }

  __device__ __forceinline__ void take(int h, int tile, int stage, float weight, bool wide) {
    const NoiseRows noise = noise_rows(a.problem, b, h);
    const int g = lane >> 2;
#pragma unroll 1
    for (int step = 0; step < kQueries; step += kStep) {
      const int first_query = tile * kQueries + step;
      if (first_query + kStep <= first_key || first_query >= a.problem.T) continue;
      const uint32_t q_rows = queries + stage * kTileBytes + step * kPitch<D> * 2;
      const uint32_t dy_rows = gradients + stage * kTileBytes + step * kPitch<D> * 2;
      float S[kStep / 8][4], dA[kStep / 8][4];
      multiply_by_rows<Element, D>(S, k, right_address<D>(q_rows, lane));
      multiply_by_rows<Element, D>(dA, v, right_address<D>(dy_rows, lane));
      const bool inside = first_key + 15 <= first_query && first_query + kStep <= a.problem.T;
      if (!inside) mask_columns(S, first_key, first_query, a.problem.T);
      const uint64_t counter =
          noise.row(first_query + query_to_draw(g & 3, lane & 3)) + (first_key / kGateKeys + g / 4);
      const RowState* rows = states + stage * kQueries + step;
      differentiate_columns<kSampled>(a.problem, S, dA, rows, c2, counter, noise.octets, weight,
                                      hard_floor(a.problem, h), wide);
#pragma unroll
      for (int n = 0; n < kStep / 8; n += 2) {
        const uint32_t down = n * 8 * kPitch<D> * 2;
        if constexpr (make != Make::kKeys) {
          multiply_by_columns<Element, D>(dv, pack_left<Element>(S[n], S[n + 1]),
                                          left_address<D>(dy_rows, lane) + down);
        }
        if constexpr (make != Make::kValues) {
          multiply_by_columns<Element, D>(dk, pack_left<Element>(dA[n], dA[n + 1]),
                                          left_address<D>(q_rows, lane) + down);
        }
      }
    }
  }
};

template <class Element, int D, int kWarps, bool kSampled, Make make>
__global__ void __launch_bounds__(kWarps * 32, BackwardShape<D>::kKeyBlocks)
    key_kernel(const __grid_constant__ Backward a) {
  using Block = KeyBlock<Element, D, kWarps, kSampled, make>;
  extern __shared__ __align__(16) char shared[];
  const Problem& p = a.problem;
  const int blocks = (p.T + kWarps * 16 - 1) / (kWarps * 16);
  const Turn turn = take_turn(blockIdx.x, blocks, p.B * p.key_heads, p.key_heads_at_once);
  const int block = turn.rank, b = turn.head / p.key_heads, kv_head = turn.head % p.key_heads;
  const int group = p.H / p.key_heads;
  const int warp = threadIdx.x / 32, lane = threadIdx.x & 31, block_key = block * kWarps * 16;

  // 1. This warp's keys and values.
  Element* k_tile = reinterpret_cast<Element*>(shared);
  Element* v_tile = k_tile + kWarps * 16 * kPitch<D>;
  Element* own_k = k_tile + warp * 16 * kPitch<D>;
  Element* own_v = v_tile + warp * 16 * kPitch<D>;
  const uint32_t queries = shared_address(v_tile + kWarps * 16 * kPitch<D>);
  const auto* states = reinterpret_cast<const RowState*>(shared + BackwardShape<D>::kQueryBytes);
  Block run{a, queries, queries + 2 * Block::kTileBytes, states,
            b, lane,    block_key + warp * 16,           p.scale * kLog2E};
  load_tile<Element, D, kWarps * 16, kWarps * 32, Order::kPairs>(
      shared_address(k_tile), head_of<Element>(p.k, b, kv_head), p.k.row, block_key, p.T);
  load_tile<Element, D, kWarps * 16, kWarps * 32, Order::kPairs>(
      shared_address(v_tile), head_of<Element>(p.v, b, kv_head), p.v.row, block_key, p.T);
  const int first_tile = block_key / Block::kQueries, end_tile = (p.T - 1) / Block::kQueries + 1;
  run.load(kv_head * group, first_tile, 0);
  wait_for_copies();
  __syncthreads();
  run.k.take(shared_address(own_k), lane);
  run.v.take(shared_address(own_v), lane);

  // 2. The walk, query head after query head.
  int stage = 0;
  for (int h = kv_head * group; h < (kv_head + 1) * group; ++h) {
    const float weight = penalty_weight(a, b, h);
    for (int tile = first_tile; tile < end_tile; ++tile, stage ^= 1) {
      wait_for_copies();
      const int row = threadIdx.x;  // each thread asks about the state it copied itself
      const bool wide = __syncthreads_or(row < Block::kQueries &&
                                         states[stage * Block::kQueries + row].offset2 > kWideOffset2);
      if (tile + 1 < end_tile) {
        run.load(h, tile + 1, stage ^ 1);
      } else if (h + 1 < (kv_head + 1) * group) {
        run.load(h + 1, first_tile, stage ^ 1);
      }
      run.take(h, tile, stage, weight, wide);
    }
  }

  // 3. Rows out. (All copies have landed, and a warp writes through its own rows.)
  const int g = lane >> 2;
  if constexpr (make != Make::kValues) {
    store_sums<Element, D>(own_k, run.dk, 2 * g, 2 * g + 1, p.scale, p.scale,
                           head_of<Element>(a.grad_k, b, kv_head), a.grad_k.row, run.first_key, p.T);
  }
  if constexpr (make != Make::kKeys) {
    store_sums<Element, D>(own_v, run.dv, 2 * g, 2 * g + 1, 1.f, 1.f, head_of<Element>(a.grad_v, b, kv_head),
                           a.grad_v.row, run.first_key, p.T);
  }
}

template <class Element, int D, bool kSampled, Make make>
cudaError_t launch(const Backward& a, cudaStream_t stream) {
  constexpr int kWarps = BackwardShape<D>::kWarps;
  const auto kernel = key_kernel<Element, D, kWarps, kSampled, make>;
  constexpr int kBytes = BackwardShape<D>::kKeyBytes;
  const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (error != cudaSuccess) return error;
  const unsigned blocks = (a.problem.T + kWarps * 16 - 1) / (kWarps * 16);
  kernel<<<blocks * a.problem.B * a.problem.key_heads, kWarps * 32, kBytes, stream>>>(a);
  return cudaGetLastError();
}

template <class Element, int D>
cudaError_t launch_keys(const Backward& a, cudaStream_t stream) {
  const bool sampled = a.problem.sampled;
  if constexpr (D <= 128) {
    return sampled ? launch<Element, D, true, Make::kBoth>(a, stream)
                   : launch<Element, D, false, Make::kBoth>(a, stream);
  } else {
    const cudaError_t error = sampled ? launch<Element, D, true, Make::kValues>(a, stream)
                                      : launch<Element, D, false, Make::kValues>(a, stream);
    if (error != cudaSuccess) return error;
    return sampled ? launch<Element, D, true, Make::kKeys>(a, stream)
                   : launch<Element, D, false, Make::kKeys>(a, stream);
  }
}

}  // namespace

cudaError_t launch_fast_keys(const Backward& a, cudaStream_t stream) {
  OPENWORK_FOR_SIZE(launch_keys, a, stream)
}

int fast_shared_bytes(int d) {
  switch (d) {
    case 32:
      return BackwardShape<32>::kKeyBytes;
    case 64:
      return BackwardShape<64>::kKeyBytes;
    case 80:
      return BackwardShape<80>::kKeyBytes;
    case 96:
      return BackwardShape<96>::kKeyBytes;
    case 128:
      return BackwardShape<128>::kKeyBytes;
    default:
      return BackwardShape<256>::kKeyBytes;
  }
}

}  // namespace openwork::cuda
