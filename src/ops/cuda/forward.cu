// The fast forward pass: a block takes a run of query rows of one head, sixteen per warp, and walks the key
// tiles up to the diagonal; scores, gates and probabilities live in registers only.
//   score          one walk: g needs the score alone, so softmax runs online against a reference per row
//   logprob, idle  two walks: the first makes each row's log-sum-exp, the second has P and so g
// Sixteen keys without an open gate in a warp's rows skip their product with V.
#include "ops/cuda/forward.cuh"
#include "ops/cuda/sizes.cuh"

namespace openwork::cuda {
namespace {

template <int D>
struct ForwardShape {
  static constexpr int kWarps = 4;                  // of a block, sixteen rows each
  static constexpr int kKeys = D <= 128 ? 64 : 32;  // of a tile
  static constexpr int kStep = 32;                  // of which this many are in registers at once
  static constexpr bool kHoldQ = D <= 128;          // q as registers
  static constexpr int kBlocks = D <= 64 ? 4 : D <= 128 ? 2 : 1;  // that a multiprocessor should hold
  static constexpr int kBytes = (kWarps * 16 + 4 * kKeys) * kPitch<D> * 2;
};

template <class Element, int D, bool kSampled, bool kOfRow>
struct ForwardBlock {
  using Shape = ForwardShape<D>;
  static constexpr int kKeys = Shape::kKeys, kStep = Shape::kStep, kTiles = kStep / 8;
  static constexpr int kThreads = Shape::kWarps * 32, kTileBytes = kKeys * kPitch<D> * 2;

  const Forward& a;
  uint32_t keys, values;  // shared: two tiles each
  TileLoader<Element, D, kKeys, kThreads, Order::kOctets> k, v;
  int lane, first_row, tiles;
  float c2, bias2;
  uint64_t counters[2];
  LeftRows<D, Shape::kHoldQ> q;
  RowSums<D> rows;
  bool wide = false;  // of kOfRow, from its second walk on

  __device__ __forceinline__ void load(int tile, bool with_values) {
    const int stage = (tile & 1) * kTileBytes;
    k.load(keys + stage, tile * kKeys);
    if (with_values) v.load(values + stage, tile * kKeys);
    commit_copies();
  }

  // Calls take(first key, its place in a tile) for each step that has causal keys of this warp's rows, while
  // the next tile is being copied.
  template <class Take>
  __device__ __forceinline__ void walk(bool with_values, Take take) {
    load(0, with_values);
    for (int tile = 0; tile < tiles; ++tile) {
      wait_for_copies();
      __syncthreads();
      if (tile + 1 < tiles) load(tile + 1, with_values);
#pragma unroll 1
      for (int step = 0; step < kKeys; step += kStep) {
        if (tile * kKeys + step > first_row + 15 || first_row >= a.problem.T) break;
        take(tile * kKeys + step, (tile & 1) * kTileBytes + step * kPitch<D> * 2);
      }
    }
    __syncthreads();
  }

  __device__ __forceinline__ void score(float (&S)[kTiles][4], int first_key, uint32_t place) {
    multiply_by_rows<Element, D>(S, q, right_address<D>(keys + place, lane));
    const bool inside = first_key + kStep - 1 <= first_row && first_row + 16 <= a.problem.T;
    if (!inside) mask_scores<Order::kOctets>(S, first_key, first_row + lane / 4, a.problem.T);
  }

  // The first walk of kOfRow: the sums alone.
  __device__ __forceinline__ void take_sums(int first_key, uint32_t place) {
    float p[kTiles][4];
    PlainSums sums;
    score(p, first_key, place);
    make_probabilities(rows, p, c2, kLowest2, first_key == 0, sums,
                       [&](float(&S)[kTiles][4]) { score(S, first_key, place); });
  }

  __device__ __forceinline__ void take_gated(int first_key, uint32_t place) {
    float p[kTiles][4];
    PlainSums sums;
    score(p, first_key, place);
    const uint64_t octet = first_key / kGateKeys;
    bool narrow;
    if constexpr (kOfRow) {
      narrow = !wide;
    } else {
      narrow = make_probabilities(rows, p, c2, bias2, first_key == 0, sums,
                                  [&](float(&S)[kTiles][4]) { score(S, first_key, place); });
    }
    const RowNoise<kSampled, kTiles> noise{a.problem, {counters[0] + octet, counters[1] + octet}};
    const auto gates = gate_step<kSampled, kOfRow, Element>(a.problem, rows, p, c2, noise, narrow);
#pragma unroll
    for (int n = 0; n < kTiles / 2; ++n) {
      if (!__any_sync(kWholeWarp, gates.opened[n] != 0)) continue;
      multiply_by_columns<Element, D>(rows.y, gates.gated[n],
                                      left_address<D>(values + place, lane) + n * 16 * kPitch<D> * 2);
    }
  }
};

template <class Element, int D, bool kSampled, bool kOfRow>
__global__ void __launch_bounds__(ForwardShape<D>::kWarps * 32, ForwardShape<D>::kBlocks)
    forward_kernel(const __grid_constant__ Forward a) {
  using Block = ForwardBlock<Element, D, kSampled, kOfRow>;
  constexpr int kWarps = ForwardShape<D>::kWarps;
  extern __shared__ __align__(16) char shared[];
  const Problem& p = a.problem;
  const int blocks = (p.T + kWarps * 16 - 1) / (kWarps * 16);
  const Turn turn = take_turn(blockIdx.x, blocks, p.B * p.H, p.heads_at_once);
  const int block = blocks - 1 - turn.rank, b = turn.head / p.H, h = turn.head % p.H;
  const int warp = threadIdx.x / 32, lane = threadIdx.x & 31;
  const int kv_head = h / (p.H / p.key_heads);

  // 1. This warp's queries, and where everything is.
  Element* q_tile = reinterpret_cast<Element*>(shared);
  Element* own_rows = q_tile + warp * 16 * kPitch<D>;
  const uint32_t keys = shared_address(q_tile + kWarps * 16 * kPitch<D>);
  Block run{a,
            keys,
            keys + 2 * Block::kTileBytes,
            {head_of<Element>(p.k, b, kv_head), p.k.row, p.T},
            {head_of<Element>(p.v, b, kv_head), p.v.row, p.T},
            lane,
            (block * kWarps + warp) * 16,
            (min((block + 1) * kWarps * 16, p.T) - 1) / Block::kKeys + 1,
            p.scale * kLog2E,
            bias_in_log2(p.bias[h])};
  if constexpr (kSampled) {
    const NoiseRows noise = noise_rows(p, b, h);
    run.counters[0] = noise.row(run.first_row + lane / 4);
    run.counters[1] = noise.row(run.first_row + lane / 4 + 8);
  }
  load_tile<Element, D, kWarps * 16, kWarps * 32, Order::kPlain>(
      shared_address(q_tile), head_of<Element>(p.q, b, h), p.q.row, block * kWarps * 16, p.T);
  commit_copies();
  wait_for_copies();
  __syncthreads();
  run.q.take(shared_address(own_rows), lane);

  // 2. The walks.
  run.rows.floor = hard_floor(p, h);
  if constexpr (kOfRow) {
    run.walk(false, [&](int first_key, uint32_t place) { run.take_sums(first_key, place); });
    const float log_sum_exp2[2] = {log_of_sum2(run.rows, 0), log_of_sum2(run.rows, 1)};
    store_log_sum_exp(a, b, h, run.first_row, log_sum_exp2);
    run.wide = set_reference<Element>(run.rows, p, h, log_sum_exp2);
  }
  run.walk(true, [&](int first_key, uint32_t place) { run.take_gated(first_key, place); });

  // 3. Rows out.
  finish_rows<Element, kOfRow>(a, run.rows, own_rows, b, h, run.first_row);
}

template <class Element, int D, bool kSampled, bool kOfRow>
cudaError_t launch(const Forward& a, cudaStream_t stream) {
  using Shape = ForwardShape<D>;
  const auto kernel = forward_kernel<Element, D, kSampled, kOfRow>;
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Shape::kBytes);
  if (error != cudaSuccess) return error;
  const unsigned blocks = (a.problem.T + Shape::kWarps * 16 - 1) / (Shape::kWarps * 16);
  kernel<<<blocks * a.problem.B * a.problem.H, Shape::kWarps * 32, Shape::kBytes, stream>>>(a);
  return cudaGetLastError();
}

template <class Element, int D>
cudaError_t launch_gate(const Forward& a, cudaStream_t stream) {
  const Problem& p = a.problem;
  if (p.sampled) {
    return p.of_row ? launch<Element, D, true, true>(a, stream) : launch<Element, D, true, false>(a, stream);
  }
  return p.of_row ? launch<Element, D, false, true>(a, stream) : launch<Element, D, false, false>(a, stream);
}

}  // namespace

cudaError_t launch_fast_forward(const Forward& a, cudaStream_t stream) {
  OPENWORK_FOR_SIZE(launch_gate, a, stream)
}

}  // namespace openwork::cuda
