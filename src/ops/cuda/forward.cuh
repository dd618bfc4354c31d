// What the two forward kernels share: a warp's sums over its sixteen rows, and how a step's scores become
// probabilities and gated probabilities, in registers.
#pragma once
#include "ops/cuda/softmax.cuh"

namespace openwork::cuda {

inline constexpr float kSlack2 = 10.f;  // unnormalised probabilities stay below 2^kSlack2

// What is kept of the gates' slopes for backward (RowSlopes): nothing, the sums of sigmoid', or the rows too.
enum class Slopes { kNone, kSums, kRows };

// A warp's sums over the rows it owns.
template <int D, Slopes kept = Slopes::kNone>
struct RowSums {
  float y[D / 8][4] = {};
  float slope_row[kept == Slopes::kRows ? D / 8 : 1][4] = {};
  float slope_sum[2] = {0, 0};         // this lane's share
  float m2[2] = {kLowest2, kLowest2};  // the reference that exponents are taken against
  float l[2] = {0, 0};                 // this lane's share of sum_j exp2(x2)
  float odds[2] = {0, 0}, offset2[2] = {kLowest2, kLowest2};  // as in gate.cuh
  float penalty = 0, active = 0;
  float floor = kSteep;  // of hard gates; see hard_floor

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
template <int D, Slopes kept, int kTiles>
__device__ __forceinline__ void raise_reference(RowSums<D, kept>& rows, const float (&S)[kTiles][4], float c2,
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

// What is summed of a step's probabilities in a lane's two rows. They come in pairs, as gate_pair adds them again.
struct PlainSums {
  float sum[2] = {0, 0};
  __device__ __forceinline__ void start(int r, float pair) { sum[r] = pair; }
  __device__ __forceinline__ void add(int r, float pair) { sum[r] += pair; }
};
// The same, with the largest pair: at least any of its edges.
struct PairSums {
  float sum[2] = {0, 0}, largest[2] = {0, 0};
  __device__ __forceinline__ void start(int r, float pair) { sum[r] = largest[r] = pair; }
  __device__ __forceinline__ void add(int r, float pair) {
    sum[r] += pair;
    largest[r] = fmaxf(largest[r], pair);
  }
};

// Scores become unnormalised probabilities p in place; `sums` are of these alone.
template <int kTiles, class Sums>
__device__ __forceinline__ void exponentiate(float (&S)[kTiles][4], const float (&m2)[2], float c2,
                                             Sums& sums) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int c = 0; c < 4; ++c) S[n][c] = exp2_fast(fmaf(S[n][c], c2, -m2[c / 2]));
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float pair = S[n][2 * r] + S[n][2 * r + 1];
      if (n == 0) {
        sums.start(r, pair);
      } else {
        sums.add(r, pair);
      }
    }
  }
}

// Scores become probabilities against the rows' reference, added to l. The reference is the largest score of
// a row's first keys; it rises when a row passes it by kSlack2, which shows in the sums: then the scores are
// made again (`again`), since looking for the largest of every step costs more than the rare second try.
// False, with scores left as they are, where a row is wide and its gates need g itself.
template <int D, Slopes kept, int kTiles, class Sums, class Again>
__device__ __forceinline__ bool make_probabilities(RowSums<D, kept>& rows, float (&S)[kTiles][4], float c2,
                                                   float bias2, bool first, Sums& sums, Again again) {
  if (first || rows.is_wide()) raise_reference(rows, S, c2, bias2);
  if (rows.is_wide()) return false;
  exponentiate(S, rows.m2, c2, sums);
  constexpr float kMost = 1 << static_cast<int>(kSlack2);
  if (__any_sync(kWholeWarp, !(fmaxf(sums.sum[0], sums.sum[1]) < kMost))) {
    again(S);
    raise_reference(rows, S, c2, bias2);
    if (rows.is_wide()) return false;
    exponentiate(S, rows.m2, c2, sums);
  }
  rows.l[0] += sums.sum[0];
  rows.l[1] += sums.sum[1];
  return true;
}

// The log-sum-exp of the lane's rows, once their sums are whole.
template <int D, Slopes kept>
__device__ __forceinline__ float log_of_sum2(const RowSums<D, kept>& rows, int r) {
  return fmaxf(rows.m2[r] + log2f(sum_over_row(rows.l[r])), kLowest2);
}

// logprob and idle: each row's log-sum-exp is its reference from here on, and offsets stay as they are. True where a
// row of the warp is wide.
template <int D, Slopes kept>
__device__ __forceinline__ bool set_reference(RowSums<D, kept>& rows, const Problem& p, int h,
                                              const float (&log_sum_exp2)[2]) {
  rows.m2[0] = log_sum_exp2[0], rows.m2[1] = log_sum_exp2[1];
  rows.set_offsets({row_offset2(p, h, rows.m2[0]), row_offset2(p, h, rows.m2[1])});
  return rows.is_wide();
}

// sigmoid(g) of a pair, from the sum and the product of its E, added to the rows' penalty and slopes.
template <int D, Slopes kept>
__device__ __forceinline__ void add_penalty(RowSums<D, kept>& rows, int r, float sum, float product) {
  if constexpr (kept == Slopes::kNone) {
    rows.penalty = fmaf(fmaf(2.f, product, sum), reciprocal_fast(1.f + sum + product), rows.penalty);
  } else {
    const SigmoidSums sigmoids = add_sigmoids_and_slopes(sum, product);
    rows.penalty += sigmoids.value;
    rows.slope_sum[r] += sigmoids.slope;
  }
}

// Two neighbouring edges of row r: probabilities (of wide rows: scores) become gated probabilities, and
// `slopes` P s(1 - s) where rows of slopes are kept. Returns how many opened; `word` is the pair's noise.
// Where gates are hard, all that is wanted of E = p * odds comes from the pair's sum and product.
template <bool kSampled, Path path, int D, Slopes kept>
__device__ __forceinline__ float gate_pair(const Problem& p, RowSums<D, kept>& rows, int r, float& first,
                                           float& second, uint32_t word, float c2, float (&slopes)[2]) {
  float z[2];
  const float odds = rows.odds[r];
  if constexpr (!kSampled && path == Path::kNarrow) {
    add_penalty(rows, r, odds * (first + second), odds * odds * (first * second));
    z[0] = open_hard(first, odds * kSteep, rows.floor);
    z[1] = open_hard(second, odds * kSteep, rows.floor);
  } else {
    float x2[2] = {0, 0};
    if constexpr (path == Path::kWide) {
      x2[0] = fmaf(first, c2, -rows.m2[r]), x2[1] = fmaf(second, c2, -rows.m2[r]);
      first = exp2_fast(x2[0]), second = exp2_fast(x2[1]);
      rows.l[r] += first + second;
    }
    const float E[2] = {gate_odds<path>(p, first, odds, x2[0], rows.offset2[r]),
                        gate_odds<path>(p, second, odds, x2[1], rows.offset2[r])};
    add_penalty(rows, r, E[0] + E[1], E[0] * E[1]);
    z[0] = open_gate<kSampled>(E[0], word, 0, rows.floor);
    z[1] = open_gate<kSampled>(E[1], word, 1, rows.floor);
    if constexpr (kept == Slopes::kRows) {
      slopes[0] = first * sampled_slope(E[0], uniform_of_half(word, 0));
      slopes[1] = second * sampled_slope(E[1], uniform_of_half(word, 1));
    }
  }
  first *= z[0];
  second *= z[1];
  return z[0] + z[1];
}

// Where a step's P s(1 - s) go: rounded at once into left operands of a product with V, or nowhere.
struct NoSlopes {
  __device__ __forceinline__ void take(int, int, const float (&)[2]) {}
};
template <class Element, int kTiles>
struct PackedSlopes {
  Fragment left[kTiles / 2];
  __device__ __forceinline__ void take(int product, int r, const float (&pair)[2]) {
    left[product / 2].part[product % 2 * 2 + r] = pack<Element>(pair[0], pair[1]);
  }
};

template <bool kSampled, Path path, int D, Slopes kept, int kTiles, class Taker>
__device__ __forceinline__ void gate_edges(const Problem& problem, RowSums<D, kept>& rows,
                                           float (&p)[kTiles][4], float (&opened)[kTiles / 2], float c2,
                                           const RowNoise<kTiles>& noise, Taker& slopes) {
#pragma unroll
  for (int n = 0; n < kTiles; n += 4) {
    opened[n / 2] = opened[n / 2 + 1] = 0;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int m = 0; m < 4; ++m) {
        float& first = p[n + m][2 * r];
        float& second = p[n + m][2 * r + 1];
        float pair[2] = {0, 0};
        opened[(n + m) / 2] += gate_pair<kSampled, path>(problem, rows, r, first, second,
                                                         noise.draw[n / 4][r].word[m], c2, pair);
        slopes.take(n + m, r, pair);
      }
    }
    rows.active += opened[n / 2] + opened[n / 2 + 1];
  }
}

// Probabilities (where not `narrow`: scores) become gated probabilities in place; `slopes` takes what is kept
// of every pair. opened[n] counts the lane's open gates of products 2n and 2n + 1.
template <bool kSampled, int D, Slopes kept, int kTiles, class Taker>
__device__ __forceinline__ void gate_step(const Problem& problem, RowSums<D, kept>& rows,
                                          float (&p)[kTiles][4], float (&opened)[kTiles / 2], float c2,
                                          const RowNoise<kTiles>& noise, bool narrow, Taker&& slopes) {
  if (!narrow) {
    gate_edges<kSampled, Path::kWide>(problem, rows, p, opened, c2, noise, slopes);
  } else if (problem.sharpness == 1.f) {
    gate_edges<kSampled, Path::kNarrow>(problem, rows, p, opened, c2, noise, slopes);
  } else {
    gate_edges<kSampled, Path::kSharp>(problem, rows, p, opened, c2, noise, slopes);
  }
}

__device__ __forceinline__ void store_log_sum_exp(const Forward& a, int b, int h, int first_row,
                                                  const float (&log_sum_exp2)[2]) {
  const int lane = threadIdx.x & 31, T = a.problem.T;
  float* log_sum_exp = a.log_sum_exp + (static_cast<int64_t>(b) * a.problem.H + h) * T;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = first_row + lane / 4 + 8 * r;
    if (lane % 4 == 0 && row < T) log_sum_exp[row] = log_sum_exp2[r] * kLn2;
  }
}

// A warp's rows out, through sixteen rows of shared memory of its own, kPitch<D> apart: y, normalised by the
// sum over all causal keys, gated or not; the log-sum-exp, where it is not out yet; and this warp's share of penalty
// and active.
template <class Element, bool kOfRow, int D, Slopes kept>
__device__ __forceinline__ void finish_rows(const Forward& a, const RowSums<D, kept>& rows, Element* own,
                                            int b, int h, int first_row) {
  const Problem& p = a.problem;
  const int lane = threadIdx.x & 31, row = first_row + lane / 4;
  const int64_t head = static_cast<int64_t>(b) * p.H + h;
  float factor[2] = {1, 1};
  if constexpr (!kOfRow) {
    float log_sum_exp2[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float sum = sum_over_row(rows.l[r]);
      factor[r] = 1.f / sum;
      log_sum_exp2[r] = rows.m2[r] + log2f(sum);
    }
    store_log_sum_exp(a, b, h, first_row, log_sum_exp2);
  }
  store_sums<Element, D>(own, rows.y, lane / 4, lane / 4 + 8, factor[0], factor[1],
                         head_of<Element>(a.out, b, h), a.out.row, first_row, p.T);
  if constexpr (kept != Slopes::kNone) {
    const float sums[2] = {sum_over_row(rows.slope_sum[0]), sum_over_row(rows.slope_sum[1])};
    float* slope_sums = a.slope_sums + head * p.T;
    if (lane % 4 == 0 && row < p.T) slope_sums[row] = sums[0];
    if (lane % 4 == 0 && row + 8 < p.T) slope_sums[row + 8] = sums[1];
  }
  if constexpr (kept == Slopes::kRows) {
    store_sums<Element, D>(own, rows.slope_row, lane / 4, lane / 4 + 8, 1.f, 1.f,
                           head_of<Element>(a.slope_rows, b, h), a.slope_rows.row, first_row, p.T);
  }
  if (first_row >= p.T) return;
  const float penalty = sum_over_warp(rows.penalty);
  const int active = sum_over_warp(static_cast<int>(rows.active));
  if (lane == 0) {
    const int64_t part = head * count_parts(p.T) + first_row / kPartRows;
    a.penalty_parts[part] = penalty;
    a.active_parts[part] = active;
  }
}

}  // namespace openwork::cuda
