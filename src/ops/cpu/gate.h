// One edge's gate, kLanes edges at a time: from g = S + offset of the row to z, sigmoid(g) and their slopes.
//   hard     z = 1[g > 0]
//   sampled  z = 1[u e^g > 1 - u], s = u e^g / (u e^g + 1 - u), dz/dg = s(1 - s)    (no logarithm needed)
// With x the 16 random bits, u = (x + 1/2) 2^-16 and 1 - u = 1 - 2^-16 (x + 1/2); the factor 2^-16 cancels,
// and both are exact.
#pragma once
#include "ops/cpu/kernel.h"
#include "ops/cpu/vector.h"

namespace openwork::cpu::OPENWORK_CPU_NAMESPACE {

// A row's part in its gates: g = S + offset, dS takes off weight P G, and da takes off (1 - weight) G.
struct RowGate {
  double offset;        // b;  b - L;  b - L + log sigmoid(L - a)
  double weight, rest;  // w and 1 - w: 1 and 0, or sigmoid(L - a) and sigmoid(a - L)
};

// Kept far within what hide_future hides pairs with, so that no b, +infinity neither, brings them back.
inline double keep_within(double offset) {
  constexpr double kMost = 1e20;
  return offset > kMost ? kMost : offset < -kMost ? -kMost : offset;
}

// L is the row's log-sum-exp. An a of -infinity is logprob's row; of +infinity, a closed one.
inline RowGate row_gate(const Problem& problem, int64_t h, double L) {
  const double b = problem.bias[h];
  if (!problem.of_row) return {keep_within(b), 0, 0};
  if (!problem.idle) return {keep_within(b - L), 1, 0};
  const double x = L - problem.idle[h], e = __builtin_exp(-__builtin_fabs(x)), near = 1 / (1 + e);
  const double log_sigmoid = (x < 0 ? x : 0) - __builtin_log1p(e);
  const double rest = __builtin_isinf(x) ? 0 : x < 0 ? near : e * near;  // an infinite a has no gradient
  return {keep_within(b - L + log_sigmoid), x < 0 ? e * near : near, rest};
}

// Beyond +-60 the sigmoid is 0 or 1 to all digits that are kept, and u e^g still fits a float.
template <typename Real>
inline Lanes<Real> exponential_of_gate(Lanes<Real> g) {
  return exponential_in_range(smaller(fill<Real>(60), larger(fill<Real>(-60), g)));
}

// E = e^g without an exponential of its own: P = e^(S - shift) times e^(offset + shift), one number per row.
// It serves where the sharpness is 1 and every row's exponent lies within these bounds, which keep products
// of it and of the smallest P normal numbers; elsewhere g itself is exponentiated.
inline constexpr int kLeastExponent = -30, kLargestExponent = 20;
template <typename Real>
inline bool is_narrow(Lanes<Real> exponent) {
  const Lanes<Index<Real>> out = (exponent < kLeastExponent) | (exponent > kLargestExponent);
  Index<Real> any = 0;
  for (int lane = 0; lane < kLanes; ++lane) any |= out[lane];
  return any == 0;
}
// P there: what is smaller by far than any P that can be told from 0 beside the row's largest stays above.
template <typename Real>
inline Lanes<Real> exponential_of_probability(Lanes<Real> x) {
  return exponential_in_range(larger(fill<Real>(sizeof(Real) == sizeof(float) ? -55 : -650), x));
}

template <typename Real>
struct Odds {
  Lanes<Real> open, closed;  // u and 1 - u, times 2^16
};

// Of the `key`-th of the keys whose random bits are in `words`, two to a word.
template <typename Real>
inline Odds<Real> odds_of(const Lanes<uint32_t>* words, int key) {
  const auto bits = reinterpret_cast<Lanes<int32_t>>(words[key / 2] >> (16 * (key % 2)) & 0xFFFFu);
  const Lanes<Real> open = __builtin_convertvector(bits, Lanes<Real>) + Real(0.5);
  return {open, Real(65536) - open};
}

// z as a mask.
template <typename Real>
inline Lanes<Index<Real>> is_open(Lanes<Real> exp_g, const Odds<Real>& odds) {
  return odds.open * exp_g > odds.closed;
}

// dz/dg of a sampled gate.
template <typename Real>
inline Lanes<Real> sampled_slope(Lanes<Real> exp_g, const Odds<Real>& odds) {
  const Lanes<Real> weight = odds.open * exp_g;
  const Lanes<Real> inverse = reciprocal(weight + odds.closed);
  return (weight * inverse) * (odds.closed * inverse);
}

template <typename Real>
inline Lanes<Real> sigmoid(Lanes<Real> exp_g) {
  return exp_g * reciprocal(exp_g + Real(1));
}

template <typename Real>
inline Lanes<Real> sigmoid_slope(Lanes<Real> exp_g) {
  const Lanes<Real> inverse = reciprocal(exp_g + Real(1));
  return exp_g * inverse * inverse;
}

}  // namespace openwork::cpu::OPENWORK_CPU_NAMESPACE
