// What the two forward kernels share: a warp's sums over its sixteen rows, and how a step's scores become
// probabilities and gated probabilities, in registers.
#pragma once
#include "ops/cuda/softmax.cuh"

namespace openwork::cuda {

inline constexpr float kSlack2 = 10.f;  // unnormalised probabilities stay below 2^kSlack2

// Up to these odds P odds may stand for P (set_reference), as an Element; and what their reciprocal is held at, so that
// a row whose odds are too small to open anything has sums of 0.
template <class Element>
inline constexpr float kMostOdds2 = __is_same(Element, __half) ? 14.f : kWideOffset2;
inline constexpr float kMostFactor2 = 120.f;

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
  float penalty = 0;
  int active = 0;
  float floor = kSteep;  // of hard gates; see hard_floor

  __device__ __forceinline__ bool is_wide(float most = kWideOffset2) const {
    return __any_sync(kWholeWarp, fmaxf(offset2[0], offset2[1]) > most);
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

// What is summed of a step's probabilities in a lane's two rows, which come in pairs.
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
// row of the warp is wide; else the offset is in the exponent, which gives P odds in place of P and with it E itself,
// and sums over the row are divided by its odds in the end (take_odds_off).
template <class Element, int D, Slopes kept>
__device__ __forceinline__ bool set_reference(RowSums<D, kept>& rows, const Problem& p, int h,
                                              const float (&log_sum_exp2)[2]) {
  rows.m2[0] = log_sum_exp2[0], rows.m2[1] = log_sum_exp2[1];
  rows.set_offsets({row_offset2(p, h, rows.m2[0]), row_offset2(p, h, rows.m2[1])});
  const bool wide = rows.is_wide(kMostOdds2<Element>);
  if (!wide) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      rows.m2[r] -= rows.offset2[r];
      rows.odds[r] = 1;
    }
  }
  return wide;
}
template <class Element, int D, Slopes kept>
__device__ __forceinline__ float take_odds_off(const RowSums<D, kept>& rows, int r) {
  return rows.is_wide(kMostOdds2<Element>) ? 1.f : exp2_fast(fminf(-rows.offset2[r], kMostFactor2));
}

// What gates leave of a step: left operands of products with V, of P z and, where rows of slopes are kept, of
// P s(1 - s); and of products 2n and 2n + 1 the lane's open gates, in count_ones' bits.
template <class Element, int kTiles, Slopes kept>
struct GatedStep {
  Fragment gated[kTiles / 2];
  Fragment slopes[kept == Slopes::kRows ? kTiles / 2 : 1];
  uint32_t opened[kTiles / 2] = {};
};

// Eight edges of row r, two in each of products `first` to first + 3, into their places in `step`, from their
// probabilities, or from their scores where kFromScores; `noise` is theirs. With t = 1 / (1 + E) sigmoid(g) is E t,
// and its slope E t^2. One thing is done for all of them before the next, so that one edge's division is waited for
// under those of others.
template <bool kSampled, bool kFromScores, Path path, class Element, int D, Slopes kept, int kTiles>
__device__ __forceinline__ void gate_octet(const Problem& p, RowSums<D, kept>& rows, int first, int r,
                                           const float (&given)[kTiles][4], const Philox4& noise, float c2,
                                           GatedStep<Element, kTiles, kept>& step) {
  float P[kGateKeys], E[kGateKeys], z[kGateKeys], t[kGateKeys], slopes[kGateKeys];
#pragma unroll
  for (int e = 0; e < kGateKeys; ++e) {
    P[e] = given[first + e / 2][2 * r + e % 2];
    float x2 = 0;
    if constexpr (kFromScores) {
      x2 = fmaf(P[e], c2, -rows.m2[r]);
      P[e] = exp2_fast(x2);
      if constexpr (path == Path::kWide) rows.l[r] += P[e];
    }
    E[e] = gate_odds<path>(p, P[e], rows.odds[r], x2, rows.offset2[r]);
    t[e] = reciprocal_fast(1.f + E[e]);
  }
#pragma unroll
  for (int e = 0; e < kGateKeys; ++e) {
    if constexpr (kSampled) {
      const Uniform u = uniform_of_half(p, noise.word[e / 2], e % 2);
      z[e] = open_sampled(E[e], u);
      if constexpr (kept == Slopes::kRows) slopes[e] = sampled_share(E[e], u);
    } else {
      z[e] = open_hard(E[e], kSteep, rows.floor);
    }
  }
#pragma unroll
  for (int e = 0; e < kGateKeys; ++e) {
    const float sigmoid = E[e] * t[e];
    rows.penalty += sigmoid;
    if constexpr (kept != Slopes::kNone) rows.slope_sum[r] = fmaf(sigmoid, t[e], rows.slope_sum[r]);
    if constexpr (kept == Slopes::kRows) {
      const float share = P[e] * slopes[e];
      slopes[e] = fmaf(-share, slopes[e], share);
    }
    P[e] *= z[e];
  }
#pragma unroll
  for (int e = 0; e < kGateKeys; e += 2) {
    const int product = first + e / 2, part = product % 2 * 2 + r;
    step.gated[product / 2].part[part] = pack<Element>(P[e], P[e + 1]);
    if constexpr (kept == Slopes::kRows) {
      step.slopes[product / 2].part[part] = pack<Element>(slopes[e], slopes[e + 1]);
    }
    step.opened[product / 2] += __float_as_uint(z[e]) + __float_as_uint(z[e + 1]);
  }
}

template <bool kSampled, bool kFromScores, Path path, class Element, int D, Slopes kept, int kTiles>
__device__ __forceinline__ void gate_edges(const Problem& problem, RowSums<D, kept>& rows,
                                           const float (&p)[kTiles][4], float c2,
                                           const RowNoise<kSampled, kTiles>& noise,
                                           GatedStep<Element, kTiles, kept>& step) {
  noise.for_each([&](int n, int r, const Philox4& words) {
    gate_octet<kSampled, kFromScores, path>(problem, rows, n, r, p, words, c2, step);
  });
}

// A step's gates, from probabilities; from scores where not `narrow`, or where the row's offset is in the exponent
// (kDirect, see set_reference).
template <bool kSampled, bool kDirect, class Element, int D, Slopes kept, int kTiles>
__device__ __forceinline__ GatedStep<Element, kTiles, kept> gate_step(const Problem& problem,
                                                                      RowSums<D, kept>& rows,
                                                                      const float (&p)[kTiles][4], float c2,
                                                                      const RowNoise<kSampled, kTiles>& noise,
                                                                      bool narrow) {
  constexpr Path kUsual = kDirect ? Path::kDirect : Path::kNarrow;
  GatedStep<Element, kTiles, kept> step;
  if (!narrow) {
    gate_edges<kSampled, true, Path::kWide>(problem, rows, p, c2, noise, step);
  } else if (problem.sharpness == 1.f) {
    gate_edges<kSampled, kDirect, kUsual>(problem, rows, p, c2, noise, step);
  } else {
    gate_edges<kSampled, kDirect, Path::kSharp>(problem, rows, p, c2, noise, step);
  }
  uint32_t opened = 0;
#pragma unroll
  for (int n = 0; n < kTiles / 2; ++n) opened += step.opened[n];
  rows.active += count_ones(opened);
  return step;
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
  float factor[2];
  if constexpr (kOfRow) {
    factor[0] = take_odds_off<Element>(rows, 0), factor[1] = take_odds_off<Element>(rows, 1);
  } else {
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
    store_sums<Element, D>(own, rows.slope_row, lane / 4, lane / 4 + 8, factor[0], factor[1],
                           head_of<Element>(a.slope_rows, b, h), a.slope_rows.row, first_row, p.T);
  }
  if (first_row >= p.T) return;
  const float penalty = sum_over_warp(rows.penalty);
  const int active = sum_over_warp(rows.active);
  if (lane == 0) {
    const int64_t part = head * count_parts(p.T) + first_row / kPartRows;
    a.penalty_parts[part] = penalty;
    a.active_parts[part] = active;
  }
}

}  // namespace openwork::cuda
