// What the two backward passes share: how large their tiles are.
#pragma once
#include "ops/cuda/sizes.cuh"
#include "ops/cuda/softmax.cuh"

namespace openwork::cuda {

template <int D>
struct BackwardShape {
  static constexpr int kWarps = 4;                      // sixteen rows of a block each
  static constexpr int kTileRows = D <= 128 ? 64 : 32;  // rows of a tile that is walked over
  static constexpr int kStep = D <= 128 ? 32 : 16;      // of which this many are in registers at once
  static constexpr bool kHoldRows = D <= 64;            // the block's own rows as registers
  static constexpr int kQueryBlocks = D <= 64 ? 3 : D <= 128 ? 2 : 1;  // blocks a multiprocessor should hold
  static constexpr int kKeyBlocks = D <= 128 ? 2 : 1;
  static constexpr int kQueryBytes = (kWarps * 32 + 4 * kTileRows) * kPitch<D> * 2;
  static constexpr int kKeyBytes = kQueryBytes + 2 * kTileRows * static_cast<int>(sizeof(RowState));
};

// Queries as rows: S and dA become P, or P z where kGated, and dS in place; each row's G grows by its dg.
// counters[r]: of row r's first four keys here.
template <bool kSampled, bool kWide, bool kGated, int kTiles>
__device__ __forceinline__ void differentiate_rows(const Problem& p, float (&S)[kTiles][4],
                                                   float (&dA)[kTiles][4], const RowState (&state)[2],
                                                   float c2, const uint64_t (&counters)[2], float weight,
                                                   float floor, float (&G)[2]) {
#pragma unroll
  for (int n = 0; n < kTiles; n += 2) {
    Philox4 noise[2] = {};
    const uint64_t quad = n * 2 + (threadIdx.x & 3);
    if constexpr (kSampled) draw_fours<2>(p, {counters[0] + quad, counters[1] + quad}, noise);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        float& s = S[n + c / 2][2 * r + c % 2];
        float& ds = dA[n + c / 2][2 * r + c % 2];
        const float x2 = fmaf(s, c2, -state[r].log_sum_exp2);
        const float P = exp2_fast(x2);
        const float E = kWide ? gate_odds_wide(x2, state[r].offset2) : gate_odds(P, state[r].odds);
        const EdgeGradient edge =
            differentiate_edge<kSampled>(P, E, noise[r].word[c], ds, state[r].row_term, weight, floor);
        G[r] += edge.gate;
        s = kGated ? edge.gated : P;
        ds = edge.score;
      }
    }
  }
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

// The four words of the edges of keys 2g, 2g+1 with queries 2t, 2t+1: a Philox call gives four keys of one
// query, so lane g makes query 2t + g % 2 and trades half of it with lane g^1.
struct TradedNoise {
  uint32_t word[4];  // [key 0 query 0, key 0 query 1, key 1 query 0, key 1 query 1]

  __device__ __forceinline__ TradedNoise(const Problem& p, uint64_t counter, bool odd) {
    Philox4 draw[1];
    draw_fours<1>(p, {counter}, draw);
    const Philox4& own = draw[0];
    const uint32_t first = __shfl_xor_sync(kWholeWarp, odd ? own.word[0] : own.word[2], 4);
    const uint32_t second = __shfl_xor_sync(kWholeWarp, odd ? own.word[1] : own.word[3], 4);
    word[0] = odd ? first : own.word[0];
    word[1] = odd ? own.word[2] : first;
    word[2] = odd ? second : own.word[1];
    word[3] = odd ? own.word[3] : second;
  }
};

// S^T and dA^T become (P z)^T and dS^T in place. rows: the states of the columns' queries; counter: of this
// lane's draw in the first column pair.
template <bool kSampled, bool kWide, int kTiles>
__device__ __forceinline__ void differentiate_columns(const Problem& p, float (&S)[kTiles][4],
                                                      float (&dA)[kTiles][4], const RowState* rows, float c2,
                                                      uint64_t counter, uint64_t quads, float weight,
                                                      float floor) {
  const int t = threadIdx.x & 3;
  const bool odd = threadIdx.x & 4;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    uint32_t word[4] = {};
    if constexpr (kSampled) {
      const TradedNoise noise(p, counter + n * 8 * quads, odd);
#pragma unroll
      for (int c = 0; c < 4; ++c) word[c] = noise.word[c];
    }
    const RowState state[2] = {rows[n * 8 + 2 * t], rows[n * 8 + 2 * t + 1]};
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const RowState& row = state[c & 1];
      const float x2 = fmaf(S[n][c], c2, -row.log_sum_exp2);
      const float P = exp2_fast(x2);
      const float E = kWide ? gate_odds_wide(x2, row.offset2) : gate_odds(P, row.odds);
      const EdgeGradient edge =
          differentiate_edge<kSampled>(P, E, word[c], dA[n][c], row.row_term, weight, floor);
      S[n][c] = edge.gated;
      dA[n][c] = edge.score;
    }
  }
}

}  // namespace openwork::cuda
