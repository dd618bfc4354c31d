// One edge's gate, forward and backward, in the names of docs/method.md, 1. With E = exp(g), u the edge's
// uniform number:
//   sigmoid(g) = E / (1 + E)              open when hard:    g > 0
//   s = u E / (u E + (1 - u))             open when sampled: u > sigmoid(-g), that is u E > 1 - u
// E comes without a second exponential: E_ij = P_ij * odds_i, where odds = exp(offset) with offset = b + the
// row's reference (score), b (logprob) or b + log sigmoid(L - a) (idle). With a sharpness r, E^r stands for
// E: squared once or twice. Where an offset passes kWideOffset2 the product could overflow, or lose E to an
// underflow of P; such rows are 'wide' and take an exponential of their own, r g held at kWideOffset2, beyond
// which every gate is open and every slope is 0 in float32.
// Names ending in 2 are in units of log 2: exp2 is the hardware's exponential.
#pragma once
#include "base/philox.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/layout.h"

namespace openwork::cuda {

inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;
inline constexpr float kWideOffset2 = 40.f;
inline constexpr float kLowest2 = -1e30f;  // a finite minus infinity

// How E is made, chosen for a whole warp at a time. Each way is compiled into every kernel and a branch on
// what all lanes know picks one, once per step of 32 or 64 keys: a sharpness of 1 pays nothing for the
// others, and there is no kernel more to compile.
enum class Path {
  kDirect,  // what is given for P is P odds (forward.cuh)
  kNarrow,  // P odds
  kSharp,   // the same to the power of 2 or 4
  kWide,    // by an exponential of its own, whatever the sharpness
};

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

// Kept finite, so that sums with a masked edge's minus infinity stay numbers.
__device__ __forceinline__ float keep_finite(float x2) {
  return fminf(fmaxf(x2, kLowest2), -kLowest2);
}
__device__ __forceinline__ float bias_in_log2(float bias) {
  return keep_finite(bias * kLog2E);
}

// b + log sigmoid(L - a), with x2 = L - a.
__device__ __forceinline__ float offset_beside_idle2(float bias2, float x2) {
  return keep_finite(bias2 + (fminf(x2, 0.f) - log2f(1.f + exp2f(-fabsf(x2)))));
}

// offset of a row, in one exponent whatever a and b are: an a of -infinity is logprob, of +infinity closed.
__device__ __forceinline__ float row_offset2(const Problem& p, int h, float log_sum_exp2) {
  const float bias2 = bias_in_log2(p.bias[h]);
  if (!p.of_row) return bias2 + log_sum_exp2;
  if (!p.idle) return bias2;
  return offset_beside_idle2(bias2, log_sum_exp2 - p.idle[h] * kLog2E);
}

// w_i, what P_ij G_i is multiplied with in dS, and 1 - w_i, what G_i is in -da.
struct GateSumWeights {
  float row, idle;
};
__device__ __forceinline__ GateSumWeights gate_sum_weights(const Problem& p, int h, float log_sum_exp2) {
  if (!p.of_row) return {0.f, 0.f};
  if (!p.idle) return {1.f, 0.f};
  const float x2 = log_sum_exp2 - p.idle[h] * kLog2E;
  return {1.f / (1.f + exp2f(-x2)), 1.f / (1.f + exp2f(x2))};
}

// dpenalty / N of one head of one sample, N its causal pairs.
__device__ __forceinline__ float penalty_weight(const Backward& a, int b, int h) {
  const Problem& p = a.problem;
  return a.grad_penalty[static_cast<int64_t>(b) * p.H + h] / (0.5f * p.T * (p.T + 1.f));
}

// u and u - 1 of one half of a noise word, both times 2^16 kSteep and exact. The half's bits become a float's
// last ones by moving bytes, which costs less than a conversion.
inline constexpr float kSteep = 0x1p60f;
struct Uniform {
  float up, minus_down;
};
__device__ __forceinline__ Uniform uniform_of_half(const Problem& p, uint32_t word, int half) {
  constexpr float kOff = kSteep * (0x1p23f - 0.5f);  // what to take off for the bits + 1/2
  const float up = __uint_as_float(__byte_perm(word, p.steep_bits, half ? 0x7632 : 0x7610)) - kOff;
  return {up, up - kSteep * 0x1p16f};
}

// E (to the power of r) of an edge; x2 = log2 p.
template <Path path>
__device__ __forceinline__ float gate_odds(const Problem& problem, float p, float odds, float x2,
                                           float offset2) {
  if constexpr (path == Path::kDirect) return p;
  if constexpr (path == Path::kNarrow) return p * odds;
  if constexpr (path == Path::kWide) {
    return exp2_fast(fminf((x2 + offset2) * problem.sharpness, kWideOffset2));
  }
  const bool twice = problem.sharpness > 2.f;
  float E = fminf(p * odds, twice ? 0x1p12f : 0x1p24f);  // E^r, and what is multiplied with it, stay finite
  E *= E;
  return twice ? E * E : E;
}

// z as 1 or 0. Steps are made by multiply-adds that saturate to [0, 1], which the chip has more of than
// comparisons: the smallest difference of two floats in use, times kSteep, is at least 1.
__device__ __forceinline__ float open_hard(float E, float steep, float floor) {
  return __saturatef(fmaf(E, steep, -floor));
}
// What open_hard takes off: kSteep, or more than any E where a head is closed outright (logprob and idle, b
// <= 0), so that a P rounded above 1 opens nothing.
__device__ __forceinline__ float hard_floor(const Problem& p, int h) {
  return p.of_row && p.bias[h] <= 0 ? 3e38f : kSteep;
}
__device__ __forceinline__ float open_sampled(float E, const Uniform& u) {
  return __saturatef(fmaf(u.up, E, u.minus_down));
}
// How many of up to 511 steps are 1, from the sum of their bits as whole numbers: 1.f is 127 * 2^23, and 383 * 127 is
// 1 modulo 2^9.
__device__ __forceinline__ int count_ones(uint32_t bits) {
  return static_cast<int>((bits >> 23) * 383u & 511u);
}

// s of a sampled gate, whose slope is s(1 - s).
__device__ __forceinline__ float sampled_share(float E, const Uniform& u) {
  const float up = u.up * E;
  return up * reciprocal_fast(up - u.minus_down);
}

// What backward makes of an edge: Pz, dg, and dS without the row's own term.
//   dg = r ([sampled] P dA s(1-s) + weight sigmoid'(g)),  weight = dpenalty / N, g and s at the sharpness r
//   dS = P (z dA - row_term) + dg
// With t = 1 / (1 + E) sigmoid' is E t^2. Where E = P odds all of this is P times something, and so it is made.
struct EdgeGradient {
  float gated, gate, score;
};

// row_weight: weight odds of kNarrow, else weight. kGates: dg itself is asked for.
template <bool kSampled, bool kGates, Path path>
__device__ __forceinline__ EdgeGradient differentiate_edge(const Problem& p, float P, float E, uint32_t word,
                                                           int half, float dA, float row_term,
                                                           float row_weight, float floor) {
  EdgeGradient edge = {};
  const float t = reciprocal_fast(1.f + E);
  float z, slope = 0;
  if constexpr (kSampled) {
    const Uniform u = uniform_of_half(p, word, half);
    const float s = sampled_share(E, u);
    z = open_sampled(E, u);
    slope = fmaf(-s, s, s);
  } else {
    z = open_hard(E, kSteep, floor);
  }
  edge.gated = P * z;
  if constexpr (path != Path::kNarrow) {
    edge.gate = p.sharpness * fmaf(P * dA, slope, row_weight * E * t * t);
    edge.score = fmaf(P, fmaf(z, dA, -row_term), edge.gate);
  } else if constexpr (kGates) {
    const float gate = fmaf(dA, slope, row_weight * t * t);
    edge.gate = P * gate;
    edge.score = P * (fmaf(z, dA, gate) - row_term);
  } else {
    edge.score = P * fmaf(z, dA, fmaf(row_weight * t, t, fmaf(dA, slope, -row_term)));
  }
  return edge;
}

// The words of an octet of keys: base/philox.h's function with its round keys from constant memory.
__device__ __forceinline__ Philox4 draw_octet(const Problem& p, uint64_t counter) {
  Philox4 draw = {{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0}};
  uint32_t(&c)[4] = draw.word;
#pragma unroll
  for (int round = 0; round < kGateRounds; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(0xD2511F53u) * c[0];
    const uint64_t p1 = static_cast<uint64_t>(0xCD9E8D57u) * c[2];
    c[0] = static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ p.round_keys[2 * round];
    c[2] = static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ p.round_keys[2 * round + 1];
    c[1] = static_cast<uint32_t>(p1);
    c[3] = static_cast<uint32_t>(p0);
  }
  return draw;
}

// The noise of a lane's two rows in a step of kTiles products (kOctets order); counters[r]: of row r's first octet
// there. for_each calls take(n, r, noise) for row r's octet of products n to n + 3, with the next one's drawn beside:
// wide multiplications and an edge's arithmetic take turns.
template <bool kSampled, int kTiles>
struct RowNoise {
  static_assert(kTiles % 4 == 0, "a lane's octet of keys takes four products");
  const Problem& p;
  uint64_t counters[2];

  __device__ __forceinline__ Philox4 draw(int n, int r) const {
    if constexpr (!kSampled) return {};
    return draw_octet(p, counters[r] + octet_of_lane(n, threadIdx.x & 3));
  }
  template <class Take>
  __device__ __forceinline__ void for_each(Take take) const {
    Philox4 own = draw(0, 0);
#pragma unroll
    for (int octet = 0; octet < kTiles / 2; ++octet) {
      Philox4 next = {};
      if (octet + 1 < kTiles / 2) next = draw((octet + 1) / 2 * 4, (octet + 1) % 2);
      take(octet / 2 * 4, octet % 2, own);
      own = next;
    }
  }
};

// Places of the uniforms: counter of a row's first octet of keys (gate_counter of base/philox.h).
struct NoiseRows {
  uint64_t first;   // of the head's row 0
  uint32_t octets;  // of a row
  __device__ __forceinline__ uint64_t row(int i) const {
    return first + static_cast<uint64_t>(static_cast<uint32_t>(i)) * octets;
  }
};
__device__ __forceinline__ NoiseRows noise_rows(const Problem& p, int b, int h) {
  const uint32_t octets = (p.T + kGateKeys - 1) / kGateKeys;
  return {(static_cast<uint64_t>(p.first + b) * p.H + h) * p.T * octets, octets};
}

template <class Element>
__device__ __forceinline__ Element* head_of(const Rows& rows, int b, int h) {
  return static_cast<Element*>(rows.data) + b * rows.batch + h * rows.head;
}

}  // namespace openwork::cuda
