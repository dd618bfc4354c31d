// Vectors of kLanes numbers, as wide as the instruction set this is compiled for, written with the compilers'
// vector extension: one source serves AVX-512, AVX2, SSE2 and NEON. Lanes are query rows wherever gates are
// concerned, so a row's maximum, sums and noise need no shuffling between lanes.
#pragma once
#include <cstdint>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#if defined(__AVX512F__)
#define OPENWORK_CPU_NAMESPACE avx512
#elif defined(__AVX2__)
#define OPENWORK_CPU_NAMESPACE avx2
#else
#define OPENWORK_CPU_NAMESPACE baseline
#endif

namespace openwork::cpu::OPENWORK_CPU_NAMESPACE {

#if defined(__AVX512F__)
inline constexpr int kLanes = 16, kRegisters = 32;
#elif defined(__AVX2__)
inline constexpr int kLanes = 8, kRegisters = 16;
#elif defined(__aarch64__)
inline constexpr int kLanes = 4, kRegisters = 32;
#else
inline constexpr int kLanes = 4, kRegisters = 16;
#endif

template <typename Number>
struct LanesOf {
  typedef Number Type __attribute__((vector_size(kLanes * sizeof(Number))));
  // For loads and stores at any address that is aligned for Number.
  typedef Number Loose
      __attribute__((vector_size(kLanes * sizeof(Number)), aligned(alignof(Number)), may_alias));
};
template <typename Number>
using Lanes = typename LanesOf<Number>::Type;

template <typename Real>
struct IndexOf;
template <>
struct IndexOf<float> {
  using Type = int32_t;
};
template <>
struct IndexOf<double> {
  using Type = int64_t;
};
template <typename Real>
using Index = typename IndexOf<Real>::Type;  // as wide as Real, so masks fit

template <typename Number>
inline Lanes<Number> load(const Number* from) {
  return *reinterpret_cast<const typename LanesOf<Number>::Loose*>(from);
}
template <typename Number>
inline void store(Number* to, Lanes<Number> value) {
  *reinterpret_cast<typename LanesOf<Number>::Loose*>(to) = value;
}
template <typename Number>
inline Lanes<Number> fill(Number value) {
  return value - Lanes<Number>{};  // exact even for -0, so that compilers make it one broadcast
}
// value, value + 1, ...
template <typename Number>
inline Lanes<Number> count_from(Number value) {
  Lanes<Number> lanes;
  for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = value + lane;
  return lanes;
}

// The larger and the smaller of two numbers; b where either is not a number.
template <typename Vector>
inline Vector larger(Vector a, Vector b) {
  return a > b ? a : b;
}
template <typename Vector>
inline Vector smaller(Vector a, Vector b) {
  return a < b ? a : b;
}
#if defined(__AVX512F__)  // GCC makes two instructions of the general form
template <>
inline Lanes<float> larger(Lanes<float> a, Lanes<float> b) {
  return reinterpret_cast<Lanes<float>>(
      _mm512_maskz_max_ps(0xFFFF, reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b)));
}
template <>
inline Lanes<float> smaller(Lanes<float> a, Lanes<float> b) {
  return reinterpret_cast<Lanes<float>>(
      _mm512_maskz_min_ps(0xFFFF, reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b)));
}
#elif defined(__AVX2__)
template <>
inline Lanes<float> larger(Lanes<float> a, Lanes<float> b) {
  return reinterpret_cast<Lanes<float>>(
      _mm256_max_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b)));
}
template <>
inline Lanes<float> smaller(Lanes<float> a, Lanes<float> b) {
  return reinterpret_cast<Lanes<float>>(
      _mm256_min_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b)));
}
#endif

// e^x for x in [-87, 88]; about one unit in the last place (Cephes' expf polynomial).
inline Lanes<float> exponential_in_range(Lanes<float> x) {
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number
  const Lanes<float> shifted = x * 1.44269504088896341f + kRound;
  const Lanes<float> n = shifted - kRound;
  Lanes<float> r = x - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  Lanes<float> p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const auto power = reinterpret_cast<Lanes<int32_t>>(shifted) << 23;  // n in the exponent's place
  return reinterpret_cast<Lanes<float>>(reinterpret_cast<Lanes<int32_t>>(p) + power);
}
inline Lanes<double> exponential_in_range(Lanes<double> x) {
  for (int lane = 0; lane < kLanes; ++lane) x[lane] = __builtin_exp(x[lane]);
  return x;
}

// e^x for x that is negative but for rounding. What is too small for a normal number stays just above zero.
template <typename Real>
inline Lanes<Real> exponential_of_negative(Lanes<Real> x) {
  return exponential_in_range(larger(fill<Real>(sizeof(Real) == sizeof(float) ? -87 : -700), x));
}

// 1/x for x well inside the normal range.
inline Lanes<float> reciprocal(Lanes<float> x) {
#if defined(__AVX512F__)
  const auto y = reinterpret_cast<Lanes<float>>(_mm512_maskz_rcp14_ps(0xFFFF, reinterpret_cast<__m512>(x)));
  return y * (2.0f - x * y);  // 14 good bits become 28
#else
  return 1.0f / x;
#endif
}
inline Lanes<double> reciprocal(Lanes<double> x) {
  return 1.0 / x;
}

// A bit per lane: set where the number is not zero.
inline uint32_t nonzero_bits(Lanes<float> x) {
#if defined(__AVX512F__)
  return _mm512_cmp_ps_mask(reinterpret_cast<__m512>(x), _mm512_setzero_ps(), _CMP_NEQ_UQ);
#elif defined(__AVX2__)
  return _mm256_movemask_ps(_mm256_cmp_ps(reinterpret_cast<__m256>(x), _mm256_setzero_ps(), _CMP_NEQ_UQ));
#else
  uint32_t bits = 0;
  for (int lane = 0; lane < kLanes; ++lane) bits |= static_cast<uint32_t>(x[lane] != 0) << lane;
  return bits;
#endif
}
inline uint32_t nonzero_bits(Lanes<double> x) {
  uint32_t bits = 0;
  for (int lane = 0; lane < kLanes; ++lane) bits |= static_cast<uint32_t>(x[lane] != 0) << lane;
  return bits;
}

// The sum of a vector's numbers, halves added to halves.
inline float sum_lanes(Lanes<float> x) {
#if defined(__AVX512F__)
  const auto eight = __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7) +
                     __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15);
  const auto four =
      __builtin_shufflevector(eight, eight, 0, 1, 2, 3) + __builtin_shufflevector(eight, eight, 4, 5, 6, 7);
#elif defined(__AVX2__)
  const auto four = __builtin_shufflevector(x, x, 0, 1, 2, 3) + __builtin_shufflevector(x, x, 4, 5, 6, 7);
#else
  const auto four = x;
#endif
  return (four[0] + four[1]) + (four[2] + four[3]);
}
inline double sum_lanes(Lanes<double> x) {
  double sum = 0;
  for (int lane = 0; lane < kLanes; ++lane) sum += x[lane];
  return sum;
}

}  // namespace openwork::cpu::OPENWORK_CPU_NAMESPACE
