// One edge's gate, kLanes edges at a time: from g = S + b or log P + b to z, sigmoid(g) and their slopes.
//   hard     z = 1[g > 0]
//   sampled  z = 1[u e^g > 1 - u], s = u e^g / (u e^g + 1 - u), dz/dg = s(1 - s)    (no logarithm needed)
// With x the 32 random bits, u = (x + 1/2) 2^-32 and 1 - u = (~x + 1/2) 2^-32; the factor 2^-32 cancels, and
// neither end of (0, 1) loses digits.
#pragma once
#include "ops/cpu/vector.h"

namespace openwork::cpu::OPENWORK_CPU_NAMESPACE {

// Beyond +-60 the sigmoid is 0 or 1 to all digits that are kept, and u e^g still fits a float.
template <typename Real>
inline Lanes<Real> exponential_of_gate(Lanes<Real> g) {
  return exponential_in_range(smaller(fill<Real>(60), larger(fill<Real>(-60), g)));
}

template <typename Real>
struct Odds {
  Lanes<Real> open, closed;  // u and 1 - u, times 2^32
};

template <typename Real>
inline Odds<Real> odds_of(Lanes<uint32_t> bits) {
  return {__builtin_convertvector(bits, Lanes<Real>) + Real(0.5),
          __builtin_convertvector(~bits, Lanes<Real>) + Real(0.5)};
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
