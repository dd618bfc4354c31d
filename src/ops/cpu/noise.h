// Gate noise for kLanes query rows at a time: Philox4x32-7 as base/philox.h has it, one draw giving the eight
// keys of an octet in every lane. A draw's words live in the low halves of 64-bit lanes, where one multiply
// instruction gives a whole 64-bit product; what the high halves hold in between does not matter.
#pragma once
#include "base/philox.h"
#include "ops/cpu/tile.h"

namespace openwork::cpu::OPENWORK_CPU_NAMESPACE {

typedef uint64_t Wide __attribute__((vector_size(kLanes / 2 * sizeof(uint64_t))));

// The product of the low halves.
inline Wide multiply_low(Wide a, Wide b) {
#if defined(__AVX512F__)
  return reinterpret_cast<Wide>(  // the masked form: GCC 12 warns of its own header in the plain one
      _mm512_maskz_mul_epu32(0xFF, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#elif defined(__AVX2__)
  return reinterpret_cast<Wide>(_mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#elif defined(__x86_64__)
  return reinterpret_cast<Wide>(_mm_mul_epu32(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
#elif defined(__aarch64__)
  return reinterpret_cast<Wide>(
      vmull_u32(vmovn_u64(reinterpret_cast<uint64x2_t>(a)), vmovn_u64(reinterpret_cast<uint64x2_t>(b))));
#else
  return (a & 0xFFFFFFFFull) * (b & 0xFFFFFFFFull);
#endif
}

struct WideDraw {
  Wide word[4];
};

inline WideDraw philox_wide(uint64_t key, Wide counter) {
  Wide c0 = counter, c1 = counter >> 32, c2{}, c3{};
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
#pragma GCC unroll 7
  for (int round = 0; round < kGateRounds; ++round) {
    const Wide p0 = multiply_low(c0, 0xD2511F53ull + Wide{});
    const Wide p1 = multiply_low(c2, 0xCD9E8D57ull + Wide{});
    c0 = (p1 >> 32) ^ c1 ^ (static_cast<uint64_t>(k0) + Wide{});
    c2 = (p0 >> 32) ^ c3 ^ (static_cast<uint64_t>(k1) + Wide{});
    c1 = p1;
    c3 = p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// The noise of kLanes neighbouring rows of one head, keys in octets.
class RowNoise {
 public:
  // `row` is ((b*H + h)*T + i) of the first lane, `octets` is ceil(T/8).
  RowNoise(uint64_t seed, uint64_t row, uint64_t octets) : seed_(seed) {
    for (int lane = 0; lane < kLanes / 2; ++lane) {
      even_[lane] = (row + 2 * lane) * octets;
      odd_[lane] = (row + 2 * lane + 1) * octets;
    }
  }

  // The words of keys 8*octet .. 8*octet+7 in every row: two keys to a word, the even one in its low half.
  void draw(uint64_t octet, Lanes<uint32_t> (&words)[kGateKeys / 2]) const {
    const WideDraw even = philox_wide(seed_, even_ + octet), odd = philox_wide(seed_, odd_ + octet);
    for (int word = 0; word < kGateKeys / 2; ++word) {
      const Wide merged = (even.word[word] & 0xFFFFFFFFull) | (odd.word[word] << 32);
      words[word] = reinterpret_cast<Lanes<uint32_t>>(merged);
    }
  }

 private:
  uint64_t seed_;
  Wide even_, odd_;
};

// The noise of a block's rows from its r-th on.
inline RowNoise noise_of(const Block& block, int64_t r) {
  const Problem& problem = *block.problem;
  const uint64_t head = (problem.first + block.b) * problem.H + block.h;
  return RowNoise(problem.seed, head * problem.T + block.start + r, (problem.T + kGateKeys - 1) / kGateKeys);
}

}  // namespace openwork::cpu::OPENWORK_CPU_NAMESPACE
