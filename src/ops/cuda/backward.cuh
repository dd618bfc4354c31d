// What the two backward passes share: how large their tiles are.
#pragma once
#include "ops/cuda/sizes.cuh"
#include "ops/cuda/softmax.cuh"

namespace openwork::cuda {

template <int D>
struct BackwardShape {
  static constexpr int kWarps = 4;                      // sixteen rows of a block each
  static constexpr int kTileRows = D <= 128 ? 64 : 32;  // rows of a tile that is walked over
  static constexpr int kStep = 32;                      // of which this many are in registers at once
  static constexpr bool kHoldRows = D <= 64;            // the block's own rows as registers
  static constexpr int kQueryBlocks = D <= 64 ? 3 : D <= 128 ? 2 : 1;  // blocks a multiprocessor should hold
  static constexpr int kKeyBlocks = D <= 128 ? 2 : 1;
  static constexpr int kQueryBytes = (kWarps * 32 + 4 * kTileRows) * kPitch<D> * 2;
  static constexpr int kKeyBytes = kQueryBytes + 2 * kTileRows * static_cast<int>(sizeof(RowState));
};

// differentiate_edge's: what weighs sigmoid' in the edges of a row.
template <Path path>
__device__ __forceinline__ float row_weight(float weight, const RowState& row) {
  return path == Path::kNarrow ? weight * row.odds : weight;
}

// What of differentiate_rows is asked for beside dS: P and the rows' G, or P z and G, or P z alone.
enum class Wanted { kWeightsAndGates, kGatedAndGates, kGated };

template <bool kSampled, Wanted wanted, Path path, int kTiles>
__device__ __forceinline__ void differentiate_rows(const Problem& p, float (&S)[kTiles][4],
                                                   float (&dA)[kTiles][4], const RowState (&state)[2],
                                                   float c2, const RowNoise<kSampled, kTiles>& noise,
                                                   float weight, float floor, float (&G)[2]) {
  const float row_weights[2] = {row_weight<path>(weight, state[0]), row_weight<path>(weight, state[1])};
  noise.for_each([&](int n, int r, const Philox4& words) {
#pragma unroll
    for (int j = 0; j < kGateKeys; ++j) {
      float& s = S[n + j / 2][2 * r + j % 2];
      float& ds = dA[n + j / 2][2 * r + j % 2];
      const float x2 = fmaf(s, c2, -state[r].log_sum_exp2);
      const float P = exp2_fast(x2);
      const float E = gate_odds<path>(p, P, state[r].odds, x2, state[r].offset2);
      const EdgeGradient edge = differentiate_edge<kSampled, wanted != Wanted::kGated, path>(
          p, P, E, words.word[j / 2], j % 2, ds, state[r].row_term, row_weights[r], floor);
      if constexpr (wanted != Wanted::kGated) G[r] += edge.gate;
      s = wanted == Wanted::kWeightsAndGates ? P : edge.gated;
      ds = edge.score;
    }
  });
}

// Queries as rows: S and dA become P or P z, and dS, in place; where they are asked for each row's G grows by its dg.
template <bool kSampled, Wanted wanted, int kTiles>
__device__ __forceinline__ void differentiate_rows(const Problem& p, float (&S)[kTiles][4],
                                                   float (&dA)[kTiles][4], const RowState (&state)[2],
                                                   float c2, const RowNoise<kSampled, kTiles>& noise,
                                                   float weight, float floor, bool wide, float (&G)[2]) {
  if (wide) {
    differentiate_rows<kSampled, wanted, Path::kWide>(p, S, dA, state, c2, noise, weight, floor, G);
  } else if (p.sharpness == 1.f) {
    differentiate_rows<kSampled, wanted, Path::kNarrow>(p, S, dA, state, c2, noise, weight, floor, G);
  } else {
    differentiate_rows<kSampled, wanted, Path::kSharp>(p, S, dA, state, c2, noise, weight, floor, G);
  }
}

// A warp's share of dbias and didle: of its sixteen rows' sums, which the four lanes of a row hold alike.
__device__ __forceinline__ void store_gate_parts(const Backward& a, int head, int first_row, float gates,
                                                 float idle) {
  const int lane = threadIdx.x & 31;
  const int64_t part = static_cast<int64_t>(head) * count_parts(a.problem.T) + first_row / kPartRows;
  gates = sum_over_warp(lane % 4 == 0 ? gates : 0.f);
  if (lane == 0) a.bias_parts[part] = gates;
  if (!a.idle_parts) return;
  idle = sum_over_warp(lane % 4 == 0 ? idle : 0.f);
  if (lane == 0) a.idle_parts[part] = idle;
}

// The pass by keys has keys as rows: lane 4g + t has keys first_key + 2g, + 1 (kPairs order) and queries
// first_query + 8n + 2t, + 1. Scores of queries before the key, or past the end, become minus infinity.
template <int kTiles>
__device__ __forceinline__ void mask_columns(float (&S)[kTiles][4], int first_key, int first_query, int T) {
  const int lane = threadIdx.x & 31;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int query = first_query + n * 8 + 2 * (lane & 3) + (c & 1);
      const int key = first_key + 2 * (lane >> 2) + c / 2;
      if (key > query || query >= T) S[n][c] = -INFINITY;
    }
  }
}

// The words of keys 2g, 2g+1 with the lane's four queries of two neighbouring products, drawn and traded as
// layout.h has it: word[q] is query query_to_draw(q, t)'s, key 2g in its low half.
struct TradedNoise {
  Philox4 draw;

  __device__ __forceinline__ TradedNoise(const Problem& p, uint64_t counter) : draw(draw_octet(p, counter)) {
    const int rank = threadIdx.x >> 2 & 3;
#pragma unroll
    for (int step = 1; step <= 2; ++step) {
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        const uint32_t mine = word_to_give(draw.word, step, pair, rank);
        put_word(draw.word, step, pair, rank, __shfl_xor_sync(kWholeWarp, mine, 4 * step));
      }
    }
  }
  __device__ __forceinline__ uint32_t word(int query) const {
    return draw.word[query];
  }
};

template <bool kSampled, Path path, int kTiles>
__device__ __forceinline__ void differentiate_columns(const Problem& p, float (&S)[kTiles][4],
                                                      float (&dA)[kTiles][4], const RowState* rows, float c2,
                                                      uint64_t counter, uint64_t octets, float weight,
                                                      float floor) {
  static_assert(kTiles % 2 == 0, "a lane's draw is of one of four queries in two products");
  const int t = threadIdx.x & 3;
#pragma unroll
  for (int n = 0; n < kTiles; n += 2) {
    uint32_t words[4] = {};
    if constexpr (kSampled) {
      const TradedNoise noise(p, counter + n * 8 * octets);
#pragma unroll
      for (int query = 0; query < 4; ++query) words[query] = noise.word(query);
    }
#pragma unroll
    for (int query = 0; query < 4; ++query) {
      const int product = n + query / 2, column = query % 2;
      const RowState row = rows[product * 8 + 2 * t + column];
      const float own_weight = row_weight<path>(weight, row);
#pragma unroll
      for (int key = 0; key < 2; ++key) {
        float& s = S[product][2 * key + column];
        float& ds = dA[product][2 * key + column];
        const float x2 = fmaf(s, c2, -row.log_sum_exp2);
        const float P = exp2_fast(x2);
        const float E = gate_odds<path>(p, P, row.odds, x2, row.offset2);
        const EdgeGradient edge = differentiate_edge<kSampled, false, path>(p, P, E, words[query], key, ds,
                                                                            row.row_term, own_weight, floor);
        s = edge.gated;
        ds = edge.score;
      }
    }
  }
}

// S^T and dA^T become (P z)^T and dS^T in place. rows: the states of the columns' queries; counter: of this
// lane's draw in the first two products.
template <bool kSampled, int kTiles>
__device__ __forceinline__ void differentiate_columns(const Problem& p, float (&S)[kTiles][4],
                                                      float (&dA)[kTiles][4], const RowState* rows, float c2,
                                                      uint64_t counter, uint64_t octets, float weight,
                                                      float floor, bool wide) {
  if (wide) {
    differentiate_columns<kSampled, Path::kWide>(p, S, dA, rows, c2, counter, octets, weight, floor);
  } else if (p.sharpness == 1.f) {
    differentiate_columns<kSampled, Path::kNarrow>(p, S, dA, rows, c2, counter, octets, weight, floor);
  } else {
    differentiate_columns<kSampled, Path::kSharp>(p, S, dA, rows, c2, counter, octets, weight, floor);
  }
}

}  // namespace openwork::cuda
