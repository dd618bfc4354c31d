// Philox4x32, the counter-based random numbers of Salmon et al. (2011): ten rounds for data order, initial
// weights, generation and resampling, seven for gate noise (seven pass BigCrush, and noise is drawn per
// edge). A number is a pure function of (seed, position): every device, tile size and thread count draws the
// same. The functions compile for host and device alike.
#pragma once
#include <cstdint>

#if defined(__CUDACC__)
#define OPENWORK_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define OPENWORK_HOST_DEVICE inline
#endif

namespace openwork {

struct Philox4 {
  uint32_t word[4];
};

// Rounds over the 128-bit counter (high words 0 here) with the 64-bit key.
template <int Rounds = 10>
OPENWORK_HOST_DEVICE Philox4 philox(uint64_t key, uint64_t counter) {
  uint32_t c0 = static_cast<uint32_t>(counter), c1 = static_cast<uint32_t>(counter >> 32), c2 = 0, c3 = 0;
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < Rounds; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(0xD2511F53u) * c0;
    const uint64_t p1 = static_cast<uint64_t>(0xCD9E8D57u) * c2;
    const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const uint32_t n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(p1);
    c3 = static_cast<uint32_t>(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// A uniform number in (0, 1) from 32 random bits; exact in double.
OPENWORK_HOST_DEVICE double uniform_of(uint32_t x) {
  return (x + 0.5) * (1.0 / 4294967296.0);
}

// Gate noise, version 2: eight keys to a call, 16 bits each.
inline constexpr int kGateNoise = 2;   // its version, as state.json and protocols carry it
inline constexpr int kGateRounds = 7;  // of philox
inline constexpr int kGateKeys = 8;    // neighbouring keys j that share a call

// Counter of the gates (b, h, i, 8 octet .. 8 octet + 7) of a T-token sequence with H heads:
// ((b*H + h)*T + i) * ceil(T/8) + octet.
OPENWORK_HOST_DEVICE uint64_t gate_counter(uint64_t b, uint64_t h, uint64_t i, uint64_t octet, uint64_t H,
                                           uint64_t T) {
  return ((b * H + h) * T + i) * ((T + kGateKeys - 1) / kGateKeys) + octet;
}

// The 16 bits of key j in its call: of word (j mod 8)/2 the low half for even j, the high half for odd.
OPENWORK_HOST_DEVICE uint32_t gate_bits(const Philox4& draw, uint64_t j) {
  return draw.word[j % kGateKeys / 2] >> (16 * (j % 2)) & 0xFFFFu;
}

// A gate's uniform number in (0, 1) from its 16 bits; exact in float and double.
OPENWORK_HOST_DEVICE double gate_uniform(uint32_t x) {
  return (x + 0.5) * (1.0 / 65536.0);
}

// A 64-bit mixer (splitmix64's finaliser): seeds of layers and steps from a run's seed.
OPENWORK_HOST_DEVICE uint64_t mix_seed(uint64_t seed, uint64_t value) {
  uint64_t x = seed + 0x9E3779B97F4A7C15ull * (value + 1);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

}  // namespace openwork
