// gated_inference of many queries on Hopper's tensor cores: the walks of forward_hopper.cu for those who want z alone.
// Nothing is counted, so an edge costs its exponential, a sum and, where a gate may open, a step and a product with V.
//
// Which gates may open is known before the row's sum is: of logprob and idle
//   P_ij sigmoid(L - a) exp(b) > 1   that is   exp(S_ij) > exp(-b) (exp(L) + exp(a))
// and the right side only grows while L is being summed. So the first walk, which makes L, marks the tiles in which
// some pair of edges passes what has been summed so far; the second visits these alone.
#include <algorithm>

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
  // Where few warps share a scheduler the next tile's scores are under way while this one's are taken; many hide a
  // product's latency for each other, and there y takes the registers.
  __host__ __device__ static constexpr bool is_ahead() { return D > 64; }
  // And for each group a bit for each key tile, which the first walk sets.
  __host__ __device__ static int mark_words(int K) { return (K + kGroupRows * 32 - 1) / (kGroupRows * 32); }
  static int bytes(int K) {
    return kTileBytes + kGroups * mark_words(K) * static_cast<int>(sizeof(uint32_t));
  }
};

// Which of two tiles in shared memory, known to the compiler: then all that is told of them to the tensor cores is.
template <int kNumber>
struct Stage {
  static constexpr int kHere = kNumber;
  using Other = Stage<1 - kNumber>;
};

template <class Element, int D, bool kOfRow>
struct TileGroup {
  using Shape = TileShape<D>;
  using Scores = float[kGroupRows / 8][4];
  static constexpr int kTile = kPanelTileBytes<D>, kTiles = kGroupRows / 8;

  const Inference& a;
  uint32_t shared;  // q of every group, two tiles of k, two of v
  uint32_t* marks;
  PanelLoader<Element, D, Order::kPlain> k, v;
  int group, lane, first_row, tiles;  // first_row of this warp
  float c2, bias2, idle2;
  RowSums<D> rows;
  float steep[2] = {0, 0};  // odds times kSteep

  __device__ __forceinline__ uint32_t key_tile(int stage) const {
    return shared + (Shape::kGroups + stage) * kTile;
  }
  __device__ __forceinline__ uint32_t value_tile(int stage) const { return key_tile(2 + stage); }
  // Keys before the first query's own.
  __device__ __forceinline__ int past() const { return a.K - a.T; }
  __device__ __forceinline__ uint32_t* marks_of(int group) const {
    return marks + group * Shape::mark_words(a.K);
  }

  // Every tile of the block's groups is walked over by all of them, for its copies; each takes its own.
  __device__ __forceinline__ int next_marked(int tile) const {
    while (tile < tiles) {
      uint32_t word = 0;
#pragma unroll
      for (int g = 0; g < Shape::kGroups; ++g) word |= marks_of(g)[tile / 32];
      word >>= tile % 32;
      if (word) return min(tile + __ffs(static_cast<int>(word)) - 1, tiles);
      tile = (tile / 32 + 1) * 32;
    }
    return tiles;
  }
  __device__ __forceinline__ bool is_marked(int tile) const {
    return Shape::kGroups == 1 || (marks_of(group)[tile / 32] >> (tile % 32) & 1);
  }
  // Whether the tile has causal keys of this group's rows.
  __device__ __forceinline__ bool is_seen(int tile) const {
    if constexpr (Shape::kGroups == 1) return true;
    const int group_row = first_row & ~(kGroupRows - 1);
    return tile * kGroupRows <= group_row + kGroupRows - 1 + past() && group_row < a.T;
  }

  // `between`: tiles left out since the one before.
  __device__ __forceinline__ void load_keys(int stage, int between) {
    if (Shape::kGroups > 1 && group != 0) return;
    k.skip(between);
    k.load_next(key_tile(stage));
  }
  __device__ __forceinline__ void load_values(int stage, int between) {
    if (Shape::kGroups > 1 && group != 1) return;
    v.skip(between);
    v.load_next(value_tile(stage));
  }
  __device__ __forceinline__ void await_copies() {
    wait_for_copies();
    show_writes();
    __syncthreads();
  }
  __device__ __forceinline__ void start_scores(Scores& S, int stage) {
    fence_group();
    multiply_rows<Element, D>(S, describe_tile(shared + group * kTile), describe_tile(key_tile(stage)));
    commit_group();
  }

  // Steps that move `tile` on, until there is none left.
  template <class Step>
  __device__ __forceinline__ void step_in_turns(const int& tile, Step step) {
    while (true) {
      if (tile >= tiles) break;
      step(Stage<0>{});
      if (tile >= tiles) break;
      step(Stage<1>{});
    }
    __syncthreads();
  }

  template <bool kValues, class Next, class Has, class Take>
  __device__ __forceinline__ void walk(Next next, Has has, Take take) {
    if constexpr (Shape::is_ahead()) {
      walk_ahead<kValues>(next, has, take);
    } else {
      walk_along<kValues>(next, has, take);
    }
  }

  // Calls take(tile, scores, stage) for each tile that next(from) gives, if has(tile), while the next is being copied.
  // Before a barrier each warp has waited for its products, so that what they read may be copied over after it.
  template <bool kValues, class Next, class Has, class Take>
  __device__ __forceinline__ void walk_along(Next next, Has has, Take take) {
    int tile = next(0);
    if (tile < tiles) {
      load_keys(0, tile);
      if (kValues) load_values(0, tile);
    }
    commit_copies();
    const auto step = [&](auto stage) {
      constexpr int kHere = decltype(stage)::kHere;
      await_copies();
      const int following = next(tile + 1);
      if (following < tiles) {
        load_keys(1 - kHere, following - tile - 1);
        if (kValues) load_values(1 - kHere, following - tile - 1);
      }
      commit_copies();
      if (has(tile)) {
        Scores S;
        start_scores(S, kHere);
        wait_group<0>();
        hold(S);
        take(tile, S, stage);
      }
      tile = following;
    };
    step_in_turns(tile, step);
  }

  // The same with the next tile's scores under way while this one's are taken. A tile's keys are read a step before
  // its values, so they are copied a step earlier.
  template <bool kValues, class Next, class Has, class Take>
  __device__ __forceinline__ void walk_ahead(Next next, Has has, Take take) {
    Scores S[2];
    int tile = next(0), coming = tile < tiles ? next(tile + 1) : tiles;
    if (tile < tiles) {
      load_keys(0, tile);
      if (kValues) load_values(0, tile);
    }
    if (coming < tiles) load_keys(1, coming - tile - 1);
    commit_copies();
    await_copies();
    start_scores(S[0], 0);
    wait_group<0>();
    hold(S[0]);
    const auto step = [&](auto stage) {
      constexpr int kHere = decltype(stage)::kHere;
      await_copies();
      const int following = coming < tiles ? next(coming + 1) : tiles;
      if (following < tiles) load_keys(kHere, following - coming - 1);
      if (kValues && coming < tiles) load_values(1 - kHere, coming - tile - 1);
      commit_copies();
      start_scores(S[1 - kHere], 1 - kHere);
      if (has(tile)) take(tile, S[kHere], stage);
      wait_group<0>();
      hold(S[1 - kHere]);
      if (kValues) hold(rows.y);
      tile = coming;
      coming = following;
    };
    step_in_turns(tile, step);
  }

  __device__ __forceinline__ void mask(Scores& S, int tile) const {
    const int first_key = tile * kGroupRows, position = first_row + past();
    if (first_key + kGroupRows - 1 > position || first_row + 16 > a.T)
      mask_scores<Order::kPlain>(S, first_key, position + lane / 4, a.K);
  }

  // Scores become probabilities against the rows' reference, added to l, as in make_probabilities; no row is wide.
  // raised(): called where the reference was raised.
  template <int N, class Raised>
  __device__ __forceinline__ PairSums normalise(RowSums<N>& of, Scores& S, int tile, int stage,
                                                Raised raised) {
    const auto raise = [&] {
      raise_reference(of, S, c2, kLowest2);
      raised();
    };
    PairSums sums;
    if constexpr (Shape::is_ahead()) {
      // These scores cannot be made a second time, since their keys may be copied over by now: so the largest is
      // looked for before.
      float largest[2];
      find_largest(S, largest);
      const bool passed = largest[0] * c2 > of.m2[0] + kSlack2 || largest[1] * c2 > of.m2[1] + kSlack2;
      if (__any_sync(kWholeWarp, tile == 0 || passed)) raise();
      PlainSums plain;
      exponentiate(S, of.m2, c2, plain);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        sums.sum[r] = plain.sum[r];
        sums.largest[r] = exp2_fast(fmaf(largest[r], c2, -of.m2[r]));
      }
    } else {
      if (tile == 0) raise();
      exponentiate(S, of.m2, c2, sums);
      constexpr float kMost = 1 << static_cast<int>(kSlack2);
      if (__any_sync(kWholeWarp, !(fmaxf(sums.sum[0], sums.sum[1]) < kMost))) {
        multiply_rows_alone<Element, D>(S, shared + group * kTile, key_tile(stage));
        mask(S, tile);
        raise();
        exponentiate(S, of.m2, c2, sums);
      }
    }
    of.l[0] += sums.sum[0];
    of.l[1] += sums.sum[1];
    return sums;
  }

  // The first walk of kOfRow: sums, and marks. No y is held while it goes on. `beside`: the idle key's part of what is
  // to be passed; two exponents added, not multiplied: neither a nor b may take the product out of range.
  __device__ __forceinline__ void take_sums(RowSums<8>& alone, Scores& S, int tile, int stage, float border,
                                            float (&beside)[2]) {
    mask(S, tile);
    const PairSums sums = normalise(alone, S, tile, stage, [&] {
#pragma unroll
      for (int r = 0; r < 2; ++r) beside[r] = kNear * exp2_fast(idle2 - bias2 - alone.m2[r]);
    });
    bool near = false;
#pragma unroll
    for (int r = 0; r < 2; ++r)
      near |= sums.largest[r] > fmaf(kNear * border, sum_over_row(alone.l[r]), beside[r]);
    if (__any_sync(kWholeWarp, near) && lane == 0) {
      // By hand: the compiler would first look for other lanes that add.
      const uint32_t word = shared_address(marks_of(group) + tile / 32);
      asm volatile("red.shared.or.b32 [%0], %1;" ::"r"(word), "r"(1u << (tile % 32)) : "memory");
    }
  }

  __device__ __forceinline__ void set_odds(int r, float offset2) {
    steep[r] = exp2_fast(fminf(offset2, kMostOdds2)) * kSteep;
  }

  __device__ __forceinline__ void take_gated(Scores& p, int tile, int stage) {
    mask(p, tile);
    if constexpr (kOfRow) {
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int c = 0; c < 4; ++c) p[n][c] = exp2_fast(fmaf(p[n][c], c2, -rows.m2[c / 2]));
      }
    } else {
      const PairSums sums = normalise(rows, p, tile, stage, [&] {
#pragma unroll
        for (int r = 0; r < 2; ++r) set_odds(r, rows.m2[r] + bias2);
      });
      const bool near = fmaxf(sums.largest[0] * steep[0], sums.largest[1] * steep[1]) > kNear * kSteep;
      if (!(Shape::kGroups == 1 ? __syncthreads_or(near) : any_in_group(near, 1 + group))) return;
    }
    Fragment gated[4];
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int c = 0; c < 4; ++c) p[n][c] *= open_hard(p[n][c], steep[c / 2], kSteep);
    }
#pragma unroll
    for (int n = 0; n < 4; ++n) gated[n] = pack_left<Element>(p[2 * n], p[2 * n + 1]);
    fence_group();
    multiply_columns<Element, D>(rows.y, gated, describe_tile(value_tile(stage)));
    wait_group<0>();
    hold(rows.y);
  }

  template <class Next, class Has>
  __device__ __forceinline__ void walk_gated(Next next, Has has) {
    const auto take = [&](int tile, Scores& S, auto stage) { take_gated(S, tile, decltype(stage)::kHere); };
    walk<true>(next, has, take);
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
  const Turn turn = take_turn(blockIdx.x, blocks, a.B * a.H, a.heads_at_once);
  const int block = blocks - 1 - turn.rank, b = turn.head / a.H, h = turn.head % a.H;
  const int kv_head = a.key_of_query ? static_cast<int>(a.key_of_query[h]) : h / (a.H / a.key_heads);
  const Place place{b, h, kv_head, block * Shape::kRows};
  const float bias = a.gated ? number_of_head<Element>(a.bias, h, a.float_gates) : INFINITY;
  if (kOfRow && bias <= 0) return write_zeros<Element, Shape::kRows>(a, place);  // as is_closed
  const int warp = own_warp(), lane = threadIdx.x & 31;
  const int group = Shape::kGroups == 1 ? 0 : warp / 4;
  const int last = min(place.first + Shape::kRows, a.T) - 1;
  const Element* keys = head_of<Element>(a.k, b, kv_head);
  const Element* values = head_of<Element>(a.v, b, kv_head);

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
            a.scale * kLog2E,
            bias_in_log2(bias),
            kOfRow && a.idle ? number_of_head<Element>(a.idle, h, a.float_gates) * kLog2E : -INFINITY};
  PanelLoader<Element, D, Order::kPlain> q(head_of<Element>(a.q, b, h), a.q.row,
                                           place.first + group * kGroupRows, a.T);
  q.load_next(shared + group * Group::kTile);

  // 2. The walks.
  const auto every = [](int tile) { return tile; };
  const auto seen = [&](int tile) { return run.is_seen(tile); };
  if constexpr (kOfRow) {
    for (int word = threadIdx.x; word < Shape::kGroups * Shape::mark_words(a.K); word += Shape::kThreads)
      marks[word] = 0;
    RowSums<8> alone;
    const float border = exp2_fast(-run.bias2);
    float beside[2];
    run.template walk<false>(every, seen, [&](int tile, typename Group::Scores& S, auto stage) {
      run.take_sums(alone, S, tile, decltype(stage)::kHere, border, beside);
    });
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      run.rows.m2[r] = log_of_sum2(alone, r);
      run.set_odds(r, a.idle ? offset_beside_idle2(run.bias2, run.rows.m2[r] - run.idle2) : run.bias2);
    }
    run.k = {keys, a.k.row, 0, a.K};
    run.walk_gated([&](int tile) { return run.next_marked(tile); },
                   [&](int tile) { return run.is_marked(tile); });
  } else {
    run.walk_gated(every, seen);
  }

  // 3. Rows out, through the tiles, which nothing reads any more.
  Element* own = reinterpret_cast<Element*>(unaligned + (shared - start)) + warp * 16 * kPitch<D>;
  float factor[2] = {1, 1};
  if constexpr (!kOfRow) {
#pragma unroll
    for (int r = 0; r < 2; ++r) factor[r] = 1.f / sum_over_row(run.rows.l[r]);
  }
  store_sums<Element, D>(own, run.rows.y, lane / 4, lane / 4 + 8, factor[0], factor[1],
                         head_of<Element>(a.out, b, h), a.out.row, run.first_row, a.T);
#else
  __trap();  // built without sm_90a: inference.h's users ask for this on Hopper only
#endif
}

constexpr unsigned kMostBlocks = 0x7FFFFFFF;  // of a grid

template <class Element, int D, bool kOfRow>
cudaError_t launch_tiles(const Inference& a, cudaStream_t stream) {
  using Shape = TileShape<D>;
  const auto kernel = tile_kernel<Element, D, kOfRow>;
  const int bytes = Shape::bytes(a.K);
  const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (error != cudaSuccess) return error;
  const unsigned blocks = (a.T + Shape::kRows - 1) / Shape::kRows * a.H;  // of a sample
  const int most = std::max(1u, kMostBlocks / blocks);                    // samples of a grid
  Inference part = a;
  const auto skip = [most](Rows& rows) { rows.data = static_cast<Element*>(rows.data) + most * rows.batch; };
  for (int left = a.B; left > 0; left -= most) {
    part.B = std::min(left, most);
    part.heads_at_once = heads_at_once(part.B * part.H);
    kernel<<<blocks * part.B, Shape::kThreads, bytes, stream>>>(part);
    skip(part.q), skip(part.k), skip(part.v), skip(part.out);
  }
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
