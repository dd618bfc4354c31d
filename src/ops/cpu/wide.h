// Stored numbers as float, a vector at a time, and back.
#pragma once
#include "ops/cpu/rows.h"

namespace openwork::cpu::OPENWORK_CPU_NAMESPACE {

inline Lanes<float> load_wide(const float* from) {
  return load(from);
}
inline Lanes<float> load_wide(const BFloat16* from) {
#if defined(__AVX512F__)  // GCC makes five instructions of the general form
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  return reinterpret_cast<Lanes<float>>(
      _mm512_maskz_slli_epi32(0xFFFF, _mm512_maskz_cvtepu16_epi32(0xFFFF, half), 16));
#else
  const auto narrow = load(reinterpret_cast<const uint16_t*>(from));
  return reinterpret_cast<Lanes<float>>(__builtin_convertvector(narrow, Lanes<uint32_t>) << 16);
#endif
}
inline Lanes<float> load_wide(const Half* from) {
#if defined(__AVX512F__)
  return reinterpret_cast<Lanes<float>>(
      _mm512_maskz_cvtph_ps(0xFFFF, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
#else
  Lanes<float> wide;
  for (int lane = 0; lane < kLanes; ++lane) wide[lane] = from[lane];
  return wide;
#endif
}

inline void store_narrow(float* to, Lanes<float> value) {
  store(to, value);
}
template <typename Stored>
inline void store_narrow(Stored* to, Lanes<float> value) {
  for (int lane = 0; lane < kLanes; ++lane) to[lane] = Stored::round(value[lane]);
}

inline float narrow_to(const float*, float value) {
  return value;
}
template <typename Stored>
inline Stored narrow_to(const Stored*, float value) {
  return Stored::round(value);
}

}  // namespace openwork::cpu::OPENWORK_CPU_NAMESPACE
