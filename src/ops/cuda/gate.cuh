// One edge's gate, forward and backward, in METHOD's names. With E = exp(g), u the edge's uniform number:
//   sigmoid(g) = E / (1 + E)              open when hard:    g > 0
//   s = u E / (u E + (1 - u))             open when sampled: u > sigmoid(-g), that is u E > 1 - u
// E comes without a second exponential: E_ij = P_ij * odds_i, where odds = exp(offset) with
// offset = b (logprob) or b + the row's reference (score). Where an offset passes kWideOffset2 the product
// could overflow, or lose E to an underflow of P; such rows are 'wide' and take an exponential of their own,
// g held at kWideOffset2, beyond which every gate is open and every slope is 0 in float32.
// Names ending in 2 are in units of log 2: exp2 is the hardware's exponential.
#pragma once
#include "base/philox.h"
#include "ops/cuda/launch.h"

namespace openwork::cuda {

inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;
inline constexpr float kWideOffset2 = 40.f;
inline constexpr float kLowest2 = -1e30f;  // a finite minus infinity

__device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ float reciprocal_fast(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// b in units of log 2, kept finite so that sums with a masked edge's minus infinity stay numbers.
__device__ __forceinline__ float bias_in_log2(float bias) {
  return fminf(fmaxf(bias * kLog2E, kLowest2), -kLowest2);
}

// u and 1 - u, both times 2^32 and both exact to a float's relative precision, near 0 and near 1.
struct Uniform {
  float up, down;
};
__device__ __forceinline__ Uniform uniform_of_word(uint32_t word) {
  return {__uint2float_rn(word) + 0.5f, __uint2float_rn(~word) + 0.5f};
}

// E of an edge, without and with an exponential of its own; x2 = log2 p.
__device__ __forceinline__ float gate_odds(float p, float odds) {
  return p * odds;
}
__device__ __forceinline__ float gate_odds_wide(float x2, float offset2) {
  return exp2_fast(fminf(x2 + offset2, kWideOffset2));
}

// z as 1 or 0. Steps are made by multiply-adds that saturate to [0, 1], which the chip has more of than
// comparisons: the smallest difference of two floats in use, times kSteep, is at least 1.
inline constexpr float kSteep = 1e20f;
__device__ __forceinline__ float open_hard(float E, float steep, float floor) {
  return __saturatef(fmaf(E, steep, -floor));
}
// What open_hard takes off: kSteep, or more than any E where a head is closed outright (logprob, b <= 0), so
// that a P rounded above 1 opens nothing.
__device__ __forceinline__ float hard_floor(const Problem& p, int h) {
  return p.logprob && p.bias[h] <= 0 ? 3e38f : kSteep;
}
__device__ __forceinline__ float open_sampled(float E, const Uniform& u) {
  return __saturatef(fmaf(u.up, E, -u.down) * kSteep);
}
template <bool kSampled>
__device__ __forceinline__ float open_gate(float E, uint32_t word, float floor) {
  if constexpr (kSampled) return open_sampled(E, uniform_of_word(word));
  return open_hard(E, kSteep, floor);
}

// sigmoid(g) of two edges, added: one division for both.
__device__ __forceinline__ float add_sigmoids(float E, float other) {
  const float sum = E + other, product = E * other;
  return fmaf(2.f, product, sum) * reciprocal_fast(1.f + sum + product);
}

// What backward makes of an edge: Pz, dg, and dS without the row's own term.
//   dg = [sampled] P dA s(1-s) + weight sigmoid'(g),  weight = dpenalty / N
//   dS = P (z dA - row_term) + dg
struct EdgeGradient {
  float gated, gate, score;
};

template <bool kSampled>
__device__ __forceinline__ EdgeGradient differentiate_edge(float P, float E, uint32_t word, float dA,
                                                           float row_term, float weight, float floor) {
  EdgeGradient edge;
  const float PdA = P * dA, sigmoid = E * reciprocal_fast(1.f + E);
  float z;
  edge.gate = weight * fmaf(-sigmoid, sigmoid, sigmoid);
  if constexpr (kSampled) {
    // u's own half is left out: a slope needs no more than a word's precision. 1 - u keeps it, so that the
    // sum stays above 0 where E is 0.
    const float up = __uint2float_rn(word) * E, down = __uint2float_rn(~word) + 0.5f;
    const float s = up * reciprocal_fast(up + down);
    z = __saturatef(fmaf(s, kSteep, -0.5f * kSteep));
    edge.gate = fmaf(PdA, fmaf(-s, s, s), edge.gate);
  } else {
    z = open_hard(E, kSteep, floor);
  }
  edge.gated = P * z;
  edge.score = fmaf(-P, row_term, fmaf(PdA, z, edge.gate));
  return edge;
}

// The words of four neighbouring keys: base/philox.h's function with its round keys from constant memory. Of
// several rows at once, round by round, so that one draw's multiplications fill the waits of another's.
template <int kRows>
__device__ __forceinline__ void draw_fours(const Problem& p, const uint64_t (&counters)[kRows],
                                           Philox4 (&draws)[kRows]) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    draws[r] = {{static_cast<uint32_t>(counters[r]), static_cast<uint32_t>(counters[r] >> 32), 0, 0}};
  }
#pragma unroll
  for (int round = 0; round < 10; ++round) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      uint32_t(&c)[4] = draws[r].word;
      const uint64_t p0 = static_cast<uint64_t>(0xD2511F53u) * c[0];
      const uint64_t p1 = static_cast<uint64_t>(0xCD9E8D57u) * c[2];
      c[0] = static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ p.round_keys[2 * round];
      c[2] = static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ p.round_keys[2 * round + 1];
      c[1] = static_cast<uint32_t>(p1);
      c[3] = static_cast<uint32_t>(p0);
    }
  }
}

// Places of the uniforms: counter of a row's first four keys (gate_counter of base/philox.h).
struct NoiseRows {
  uint64_t head;  // (first + b)*H + h
  uint64_t T, quads;
  __device__ __forceinline__ uint64_t row(uint64_t i) const { return (head * T + i) * quads; }
};
__device__ __forceinline__ NoiseRows noise_rows(const Problem& p, int b, int h) {
  const uint64_t T = p.T;
  return {static_cast<uint64_t>(p.first + b) * p.H + h, T, (T + 3) / 4};
}

template <class Element>
__device__ __forceinline__ Element* head_of(const Rows& rows, int b, int h) {
  return static_cast<Element*>(rows.data) + b * rows.batch + h * rows.head;
}

}  // namespace openwork::cuda
