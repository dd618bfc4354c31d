// gated_inference of many queries on Hopper's tensor cores: the walks of forward_hopper.cu for those who want z alone.
// Nothing is counted, so an edge costs its exponential, a sum and, where a gate may open, a step and a product with V.
//
// Which gates may open is known before the row's sum is: of logprob and idle
//   P_ij sigmoid(L - a) exp(b) > 1   that is   exp(S_ij) > exp(-b) (exp(L) + exp(a))
// and the right side only grows while L is being summed. So the first walk, which makes L, marks the tiles in which
// some pair of edges passes what has been summed so far; the second visits these alone, and most of them again only to
// see that nothing opens.
#include "ops/cuda/forward.cuh"
#include "ops/cuda/inference.cuh"
#include "ops/cuda/sizes.cuh"
#include "ops/cuda/warpgroup.cuh"

namespace openwork::cuda {
namespace {

[[maybe_unused]] constexpr float kMostOdds2 = 60.f;  // beyond it only edges open that weigh nothing
[[maybe_unused]] constexpr float kNear = 0.99f;  // what is marked, of what opens a gate: room for rounding

template <int D>
struct TileShape {
  static constexpr int kGroups = D == 64 ? 1 : 3, kBlocks = D == 64 ? 5 : 1;
  static constexpr int kRows = kGroups * kGroupRows, kThreads = kGroups * kGroupThreads;
  static constexpr int kTileBytes = (kGroups + 4) * kPanelTileBytes<D> + 1024;  // the last: room to align
  // And a bit for each key tile, which the first walk sets.
  __host__ __device__ static int mark_words(int K) { return (K + kGroupRows * 32 - 1) / (kGroupRows * 32); }
  static int bytes(int K) { return kTileBytes + mark_words(K) * static_cast<int>(sizeof(uint32_t)); }
};

template <class Element, int D, bool kOfRow>
struct TileGroup {
  using Shape = TileShape<D>;
  static constexpr int kTile = kPanelTileBytes<D>, kTiles = kGroupRows / 8;

  const Inference& a;
  uint32_t shared;  // q of every group, two tiles of k, two of v
  uint32_t* marks;
  PanelLoader<Element, D, Order::kPlain> k, v;
  int group, lane, first_row, tiles;  // first_row of this warp
  float c2;
  RowSums<D> rows;

  __device__ __forceinline__ uint32_t key_tile(int stage) const {
    return shared + (Shape::kGroups + stage) * kTile;
  }
  __device__ __forceinline__ uint32_t value_tile(int stage) const { return key_tile(2 + stage); }
  // Keys before the first query's own.
  __device__ __forceinline__ int past() const { return a.K - a.T; }

  __device__ __forceinline__ int next_marked(int tile) const {
    while (tile < tiles) {
      const uint32_t word = marks[tile / 32] >> (tile % 32);
      if (word) return min(tile + __ffs(static_cast<int>(word)) - 1, tiles);
      tile = (tile / 32 + 1) * 32;
    }
    return tiles;
  }

  // `between`: tiles left out since the one before.
  __device__ __forceinline__ void load(int stage, int between, bool with_values) {
    if (group == 0) {
      k.skip(between);
      k.load_next(key_tile(stage));
    }
    if (with_values && group == (Shape::kGroups > 1)) {
      v.skip(between);
      v.load_next(value_tile(stage));
    }
    commit_copies();
  }

  // Calls take(tile, stage) for each tile that next(from) gives and that has causal keys of this group's rows, while
  // the next is being copied.
  template <class Next, class Take>
  __device__ __forceinline__ void walk(bool with_values, Next next, Take take) {
    const int group_row = first_row / kGroupRows * kGroupRows;
    int tile = next(0);
    if (tile < tiles) load(0, tile, with_values);
    for (int stage = 0; tile < tiles; stage ^= 1) {
      wait_for_copies();
      show_writes();
      __syncthreads();
      const int following = next(tile + 1);
      if (following < tiles) load(stage ^ 1, following - tile - 1, with_values);
      if (tile * kGroupRows <= group_row + kGroupRows - 1 + past() && group_row < a.T) take(tile, stage);
      tile = following;
    }
    __syncthreads();
  }

  __device__ __forceinline__ void mask(float (&S)[kTiles][4], int tile) const {
    const int first_key = tile * kGroupRows, position = first_row + past();
    if (first_key + kGroupRows - 1 > position || first_row + 16 > a.T)
      mask_scores<Order::kPlain>(S, first_key, position + lane / 4, a.K);
  }
  __device__ __forceinline__ void score(float (&S)[kTiles][4], int tile, int stage) {
    fence_group();
    multiply_rows<Element, D>(S, describe_tile(shared + group * kTile), describe_tile(key_tile(stage)));
    commit_group();
    wait_group<0>();
    hold(S);
    mask(S, tile);
  }
  template <int N>
  __device__ __forceinline__ void normalise(RowSums<N>& of, float (&S)[kTiles][4], int tile, int stage,
                                            PairSums& sums) {
    make_probabilities(of, S, c2, kLowest2, tile == 0, sums, [&](float(&again)[kTiles][4]) {
      multiply_rows_alone<Element, D>(again, shared + group * kTile, key_tile(stage));
      mask(again, tile);
    });
  }

  // The first walk of kOfRow: sums, and marks. No y is held while it goes on.
  __device__ __forceinline__ void take_sums(RowSums<8>& alone, int tile, int stage, float border, float bias2,
                                            float idle2) {
    float p[kTiles][4];
    PairSums sums;
    score(p, tile, stage);
    normalise(alone, p, tile, stage, sums);
    bool near = false;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      // Two exponents added, not multiplied: neither a nor b may take the product out of range.
      const float passed = fmaf(border, sum_over_row(alone.l[r]), exp2_fast(idle2 - bias2 - alone.m2[r]));
      near |= sums.largest[r] > kNear * passed;
    }
    if (__any_sync(kWholeWarp, near) && lane == 0) atomicOr(&marks[tile / 32], 1u << (tile % 32));
  }

  __device__ __forceinline__ void set_odds(int r, float offset2) {
    rows.odds[r] = exp2_fast(fminf(offset2, kMostOdds2));
  }

  __device__ __forceinline__ void take_gated(int tile, int stage, float bias2) {
    float p[kTiles][4];
    PairSums sums;
    score(p, tile, stage);
    if constexpr (kOfRow) {
      exponentiate(p, rows.m2, c2, sums);
    } else {
      normalise(rows, p, tile, stage, sums);
#pragma unroll
      for (int r = 0; r < 2; ++r) set_odds(r, rows.m2[r] + bias2);
    }
    const bool near = fmaxf(sums.largest[0] * rows.odds[0], sums.largest[1] * rows.odds[1]) > kNear;
    if (!(Shape::kGroups == 1 ? __syncthreads_or(near) : any_in_group(near, 1 + group))) return;
    Fragment gated[4];
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int c = 0; c < 4; ++c) p[n][c] *= open_hard(p[n][c], rows.odds[c / 2] * kSteep, kSteep);
    }
#pragma unroll
    for (int n = 0; n < 4; ++n) gated[n] = pack_left<Element>(p[2 * n], p[2 * n + 1]);
    fence_group();
    multiply_columns<Element, D>(rows.y, gated, describe_tile(value_tile(stage)));
    wait_group<0>();
    hold(rows.y);
  }
};

template <class Element, int D, bool kOfRow>
__global__ void __launch_bounds__(TileShape<D>::kThreads, TileShape<D>::kBlocks)
    tile_kernel(const __grid_constant__ Inference a) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Shape = TileShape<D>;
  using Group = TileGroup<Element, D, kOfRow>;
  extern __shared__ char unaligned[];
  const uint32_t start = shared_address(unaligned), shared = (start + 1023) & ~1023u;
  const int blocks = (a.T + Shape::kRows - 1) / Shape::kRows;
  const int block = blocks - 1 - blockIdx.x % blocks;  // the longest walks of a head first
  const Place place = find_place(a, blockIdx.x / blocks, block * Shape::kRows);
  if (is_closed<Element>(a, place.h)) return write_zeros<Element, Shape::kRows>(a, place);
  const int group = threadIdx.x / kGroupThreads, warp = threadIdx.x / 32, lane = threadIdx.x & 31;
  const int last = min(place.first + Shape::kRows, a.T) - 1;
  const Element* keys = head_of<Element>(a.k, place.b, place.kv_head);
  const Element* values = head_of<Element>(a.v, place.b, place.kv_head);

  // 1. This group's queries, and where everything is.
  uint32_t* marks = reinterpret_cast<uint32_t*>(unaligned + Shape::kTileBytes);
  Group run{a,
            shared,
            marks,
            {keys, a.k.row, 0, a.K},
            {values, a.v.row, 0, a.K},
            group,
            lane,
            place.first + warp * 16,
            (last + a.K - a.T) / kGroupRows + 1,
            a.scale * kLog2E};
  PanelLoader<Element, D, Order::kPlain> q(head_of<Element>(a.q, place.b, place.h), a.q.row,
                                           place.first + group * kGroupRows, a.T);
  q.load_next(shared + group * Group::kTile);

  // 2. The walks.
  const float bias2 =
      a.gated ? bias_in_log2(number_of_head<Element>(a.bias, place.h, a.float_gates)) : -kLowest2;
  const auto every = [](int tile) { return tile; };
  if constexpr (kOfRow) {
    const float idle = a.idle ? number_of_head<Element>(a.idle, place.h, a.float_gates) * kLog2E : -INFINITY;
    const float border = exp2_fast(-bias2);
    for (int word = threadIdx.x; word < Shape::mark_words(a.K); word += Shape::kThreads) marks[word] = 0;
    RowSums<8> alone;
    run.walk(false, every,
             [&](int tile, int stage) { run.take_sums(alone, tile, stage, border, bias2, idle); });
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      run.rows.m2[r] = fmaxf(alone.m2[r] + log2f(sum_over_row(alone.l[r])), kLowest2);
      run.set_odds(r, -gate_of_row<Element>(a, place.h, run.rows.m2[r]).border2);
    }
    run.k = {keys, a.k.row, 0, a.K};
    run.walk(
        true, [&](int tile) { return run.next_marked(tile); },
        [&](int tile, int stage) { run.take_gated(tile, stage, bias2); });
  } else {
    run.walk(true, every, [&](int tile, int stage) { run.take_gated(tile, stage, bias2); });
  }

  // 3. Rows out, through the tiles, which nothing reads any more.
  Element* own = reinterpret_cast<Element*>(unaligned + (shared - start)) + warp * 16 * kPitch<D>;
  float factor[2] = {1, 1};
  if constexpr (!kOfRow) {
#pragma unroll
    for (int r = 0; r < 2; ++r) factor[r] = 1.f / sum_over_row(run.rows.l[r]);
  }
  store_sums<Element, D>(own, run.rows.y, lane / 4, lane / 4 + 8, factor[0], factor[1],
                         head_of<Element>(a.out, place.b, place.h), a.out.row, run.first_row, a.T);
#else
  __trap();  // built without sm_90a: inference.h's users ask for this on Hopper only
#endif
}

template <class Element, int D, bool kOfRow>
cudaError_t launch_tiles(const Inference& a, cudaStream_t stream) {
  using Shape = TileShape<D>;
  const auto kernel = tile_kernel<Element, D, kOfRow>;
  const int bytes = Shape::bytes(a.K);
  const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (error != cudaSuccess) return error;
  const unsigned blocks = (a.T + Shape::kRows - 1) / Shape::kRows;
  kernel<<<blocks * a.B * a.H, Shape::kThreads, bytes, stream>>>(a);
  return cudaGetLastError();
}

template <class Element>
cudaError_t launch_tiles_of(const Inference& a, cudaStream_t stream) {
  if (a.d == 64)
    return a.of_row ? launch_tiles<Element, 64, true>(a, stream)
                    : launch_tiles<Element, 64, false>(a, stream);
  if (a.d == 128)
    return a.of_row ? launch_tiles<Element, 128, true>(a, stream)
                    : launch_tiles<Element, 128, false>(a, stream);
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t launch_tiled_inference(const Inference& a, cudaStream_t stream) {
  return a.element == Element::kFloat16 ? launch_tiles_of<__half>(a, stream)
                                        : launch_tiles_of<__nv_bfloat16>(a, stream);
}

}  // namespace openwork::cuda
