// The fast forward pass: a block takes a run of query rows of one head, sixteen per warp, and walks the key
// tiles up to the diagonal; scores, gates and probabilities live in registers only.
//   score    one walk: g needs the score alone, so softmax runs online against a reference per row
//   logprob  two walks: the first makes each row's log-sum-exp, the second has P and so g = log P + b
// The reference is the largest score of a row's first keys, and stays until a row passes it by more than
// kSlack2: looking for the largest score of every step would cost more than the rare second try.
// Sixteen keys without an open gate in a warp's rows skip their product with V.
#ifndef OW_FB
#define OW_FB 4
#define OW_FW 4
#define OW_FS 32
#endif
#ifndef OW_FB128
#define OW_FB128 2
#define OW_FK128 64
#define OW_FH128 true
#endif
#include "ops/cuda/sizes.cuh"
#include "ops/cuda/softmax.cuh"

namespace openwork::cuda {
namespace {

template <int D>
struct ForwardShape {
  static constexpr int kWarps = OW_FW;
  static constexpr int kKeys = D <= 96 ? 64 : D <= 128 ? OW_FK128 : 32;  // keys of a tile
  static constexpr int kStep = D <= 128 ? OW_FS : 16;                    // of which this many in registers
  static constexpr bool kHoldQ = D <= 96 ? true : D <= 128 ? OW_FH128 : false;  // q as registers
  static constexpr int kBlocks = D <= 64 ? OW_FB : D <= 128 ? OW_FB128 : 1;  // that a multiprocessor should hold
  static constexpr int kBytes = (kWarps * 16 + 4 * kKeys) * kPitch<D> * 2;
};

constexpr float kSlack2 = 10.f;  // unnormalised probabilities stay below 2^kSlack2

// A warp's sums over the rows it owns.
template <int D>
struct RowSums {
  float y[D / 8][4] = {};
  float m2[2] = {kLowest2, kLowest2};  // the reference that exponents are taken against
  float l[2] = {0, 0};                 // this lane's share of sum_j exp2(x2)
  float odds[2] = {0, 0}, offset2[2] = {kLowest2, kLowest2};  // as in gate.cuh
  float penalty = 0, active = 0;

  __device__ __forceinline__ bool is_wide() const {
    return __any_sync(kWholeWarp, fmaxf(offset2[0], offset2[1]) > kWideOffset2);
  }
  __device__ __forceinline__ void set_offsets(const float (&offset)[2]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      offset2[r] = offset[r];
      odds[r] = exp2_fast(offset[r]);
    }
  }
};

// Raises the rows' reference to their largest score so far, rescaling what was summed against the old one.
template <int D, int kTiles>
__device__ __forceinline__ void raise_reference(RowSums<D>& rows, const float (&S)[kTiles][4], float c2,
                                                float bias2) {
  float largest[2];
  find_largest(S, largest);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float raised = fmaxf(rows.m2[r], max_over_row(largest[r]) * c2);
    const float factor = exp2_fast(rows.m2[r] - raised);
    rows.m2[r] = raised;
    rows.l[r] *= factor;
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
      rows.y[n][2 * r] *= factor;
      rows.y[n][2 * r + 1] *= factor;
    }
  }
  rows.set_offsets({rows.m2[0] + bias2, rows.m2[1] + bias2});
}

// Scores become unnormalised probabilities p in place; their sums over the lane's two rows.
template <int kTiles>
__device__ __forceinline__ void exponentiate(float (&S)[kTiles][4], const float (&m2)[2], float c2,
                                             float (&sum)[2]) {
  sum[0] = sum[1] = 0;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      S[n][c] = exp2_fast(fmaf(S[n][c], c2, -m2[c / 2]));
      sum[c / 2] += S[n][c];
    }
  }
}

// Probabilities (of wide rows: scores) become gated probabilities in place. opened[n] counts the lane's open
// gates of sixteen keys; counters[r] is the Philox counter of row r's first four keys here.
template <int D, int kTiles, bool kSampled, bool kWide>
__device__ __forceinline__ void gate_edges(RowSums<D>& rows, float (&p)[kTiles][4], float (&opened)[kTiles / 2],
                                           float c2, const Problem& problem, const uint64_t (&counters)[2]) {
#pragma unroll
  for (int n = 0; n < kTiles; n += 2) {
    opened[n / 2] = 0;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      Philox4 noise{};
      if constexpr (kSampled) noise = draw_four(problem, counters[r] + n * 2 + (threadIdx.x & 3));
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float E[2];
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          float& entry = p[n + half][2 * r + c];
          if constexpr (kWide) {
            const float x2 = fmaf(entry, c2, -rows.m2[r]);
            entry = exp2_fast(x2);
            rows.l[r] += entry;
            E[c] = gate_odds_wide(x2, rows.offset2[r]);
          } else {
            E[c] = gate_odds(entry, rows.odds[r]);
          }
          const float z = open_gate<kSampled>(E[c], noise.word[2 * half + c]);
          entry *= z;
          opened[n / 2] += z;
        }
        rows.penalty += add_sigmoids(E[0], E[1]);
      }
    }
    rows.active += opened[n / 2];
  }
}

template <class Element, int D, bool kSampled, bool kLogProb>
struct ForwardBlock {
  using Shape = ForwardShape<D>;
  static constexpr int kKeys = Shape::kKeys, kStep = Shape::kStep, kTiles = kStep / 8;
  static constexpr int kThreads = Shape::kWarps * 32, kTileBytes = kKeys * kPitch<D> * 2;

  const Forward& a;
  uint32_t keys, values;  // shared: two tiles each
  TileLoader<Element, D, kKeys, kThreads, Order::kQuads> k, v;
  int lane, first_row, tiles;
  float c2, bias2;
  uint64_t counters[2];
  LeftRows<D, Shape::kHoldQ> q;
  RowSums<D> rows;

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
    if (!inside) mask_scores(S, first_key, first_row + lane / 4, a.problem.T);
  }

  // Scores become probabilities against the rows' reference, which rises first where it must. False, with
  // scores left as they are, where a row is wide.
  __device__ __forceinline__ bool make_probabilities(float (&S)[kTiles][4], int first_key, uint32_t place) {
    float sum[2];
    if constexpr (kLogProb) {
      if (rows.offset2[0] > kWideOffset2) return false;
      exponentiate(S, rows.m2, c2, sum);
      return true;
    }
    if (first_key == 0 || rows.is_wide()) raise_reference(rows, S, c2, bias2);
    if (rows.is_wide()) return false;
    exponentiate(S, rows.m2, c2, sum);
    constexpr float kMost = 1 << static_cast<int>(kSlack2);
    if (__any_sync(kWholeWarp, !(fmaxf(sum[0], sum[1]) < kMost))) {
      score(S, first_key, place);
      raise_reference(rows, S, c2, bias2);
      if (rows.is_wide()) return false;
      exponentiate(S, rows.m2, c2, sum);
    }
    rows.l[0] += sum[0];
    rows.l[1] += sum[1];
    return true;
  }

  __device__ __forceinline__ void take_gated(int first_key, uint32_t place) {
    float p[kTiles][4], opened[kTiles / 2];
    score(p, first_key, place);
    const uint64_t quad = first_key / 4;
    const uint64_t here[2] = {counters[0] + quad, counters[1] + quad};
    if (make_probabilities(p, first_key, place)) {
      gate_edges<D, kTiles, kSampled, false>(rows, p, opened, c2, a.problem, here);
    } else {
      gate_edges<D, kTiles, kSampled, true>(rows, p, opened, c2, a.problem, here);
    }
#pragma unroll
    for (int n = 0; n < kTiles / 2; ++n) {
      if (!__any_sync(kWholeWarp, opened[n] != 0)) continue;
      multiply_by_columns<Element, D>(rows.y, pack_left<Element>(p[2 * n], p[2 * n + 1]),
                                      left_address<D>(values + place, lane) + n * 16 * kPitch<D> * 2);
    }
  }
};

template <class Element, int D, bool kSampled, bool kLogProb>
__global__ void __launch_bounds__(ForwardShape<D>::kWarps * 32, ForwardShape<D>::kBlocks)
    forward_kernel(const __grid_constant__ Forward a) {
  using Block = ForwardBlock<Element, D, kSampled, kLogProb>;
  constexpr int kWarps = ForwardShape<D>::kWarps;
  extern __shared__ __align__(16) char shared[];
  const Problem& p = a.problem;
  const int blocks = (p.T + kWarps * 16 - 1) / (kWarps * 16);
  const int block = blocks - 1 - blockIdx.x % blocks;  // the longest walks of a head first
  const int head = blockIdx.x / blocks, b = head / p.H, h = head % p.H;
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
  if constexpr (kLogProb) {
    LogSumExp row_sums;
    run.walk(false, [&](int first_key, uint32_t place) {
      float S[Block::kTiles][4];
      run.score(S, first_key, place);
      row_sums.take_in(S, run.c2);
    });
    run.rows.m2[0] = row_sums.joined2(0);
    run.rows.m2[1] = row_sums.joined2(1);
    run.rows.set_offsets({run.bias2, run.bias2});
  }
  run.walk(true, [&](int first_key, uint32_t place) { run.take_gated(first_key, place); });

  // 3. Rows out; y is normalised by the sum over all causal keys, gated or not.
  float factor[2] = {1, 1}, log_sum_exp2[2] = {run.rows.m2[0], run.rows.m2[1]};
  if constexpr (!kLogProb) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float sum = sum_over_row(run.rows.l[r]);
      factor[r] = 1.f / sum;
      log_sum_exp2[r] += log2f(sum);
    }
  }
  const int row = run.first_row + lane / 4;
  if (lane % 4 == 0) {
    float* log_sum_exp = a.log_sum_exp + static_cast<int64_t>(head) * p.T;
    if (row < p.T) log_sum_exp[row] = log_sum_exp2[0] * kLn2;
    if (row + 8 < p.T) log_sum_exp[row + 8] = log_sum_exp2[1] * kLn2;
  }
  store_sums<Element, D>(own_rows, run.rows.y, lane / 4, lane / 4 + 8, factor[0], factor[1],
                         head_of<Element>(a.out, b, h), a.out.row, run.first_row, p.T);

  // 4. This warp's share of penalty and active.
  if (run.first_row >= p.T) return;
  const float penalty = sum_over_warp(run.rows.penalty);
  const int active = sum_over_warp(static_cast<int>(run.rows.active));
  if (lane == 0) {
    const int64_t part = static_cast<int64_t>(head) * count_parts(p.T) + run.first_row / kPartRows;
    a.penalty_parts[part] = penalty;
    a.active_parts[part] = active;
  }
}

template <class Element, int D, bool kSampled, bool kLogProb>
cudaError_t launch(const Forward& a, cudaStream_t stream) {
  using Shape = ForwardShape<D>;
  const auto kernel = forward_kernel<Element, D, kSampled, kLogProb>;
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
    return p.logprob ? launch<Element, D, true, true>(a, stream) : launch<Element, D, true, false>(a, stream);
  }
  return p.logprob ? launch<Element, D, false, true>(a, stream) : launch<Element, D, false, false>(a, stream);
}

}  // namespace

cudaError_t launch_fast_forward(const Forward& a, cudaStream_t stream) {
  OPENWORK_FOR_SIZE(launch_gate, a, stream)
}

}  // namespace openwork::cuda
