// Rows of [B, H, T, d] tensors in and out of the kernels: converted to the real type that sums are made in,
// padded with zeros to whole vectors, transposed where lanes must be query rows.
#pragma once
#include "ops/cpu/kernel.h"
#include "ops/cpu/vector.h"

namespace openwork::cpu::OPENWORK_CPU_NAMESPACE {

inline float float_of_bits(uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}
inline uint32_t bits_of_float(float value) {
  return __builtin_bit_cast(uint32_t, value);
}

struct BFloat16 {
  uint16_t bits;
  operator float() const { return float_of_bits(static_cast<uint32_t>(bits) << 16); }
  static BFloat16 round(float value) {  // to nearest, ties to even
    const uint32_t wide = bits_of_float(value);
    const uint32_t rounded = (wide + 0x7FFFu + ((wide >> 16) & 1)) >> 16;
    return {static_cast<uint16_t>(value != value ? 0x7FC0u : rounded)};
  }
};

// Half precision by integer arithmetic, so that loops vectorise on every instruction set. The exponent is
// rebiased by a multiplication, which also takes care of subnormal numbers.
struct Half {
  uint16_t bits;
  operator float() const {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16, sign = wide & 0x80000000u, twice = wide + wide;
    const float normal = float_of_bits((twice >> 4) + (0xE0u << 23)) * 0x1p-112f;
    const float subnormal = float_of_bits((twice >> 17) | (126u << 23)) - 0.5f;
    return float_of_bits(sign | bits_of_float(twice < (1u << 27) ? subnormal : normal));
  }
  static Half round(float value) {  // to nearest, ties to even; beyond the range to infinity
    const uint32_t wide = bits_of_float(value), twice = wide + wide, sign = wide & 0x80000000u;
    float base = (float_of_bits(wide & 0x7FFFFFFFu) * 0x1p+112f) * 0x1p-110f;
    const uint32_t exponent = twice & 0xFF000000u, bias = exponent < 0x71000000u ? 0x71000000u : exponent;
    base = float_of_bits((bias >> 1) + 0x07800000u) + base;
    const uint32_t bits = bits_of_float(base), rounded = ((bits >> 13) & 0x7C00u) + (bits & 0x0FFFu);
    return {static_cast<uint16_t>((sign >> 16) | (twice > 0xFF000000u ? 0x7E00u : rounded))};
  }
};

template <typename Real, typename Stored>
void convert_rows(const Stored* from, int64_t token, int64_t rows, int64_t d, int64_t padded, Real scale,
                  Real* to) {
  for (int64_t row = 0; row < rows; ++row, from += token, to += padded) {
    for (int64_t e = 0; e < d; ++e) to[e] = static_cast<Real>(from[e]) * scale;
    for (int64_t e = d; e < padded; ++e) to[e] = 0;
  }
}

inline const void* element_at(const Problem& problem, const View& view, int64_t b, int64_t head,
                              int64_t token) {
  const int64_t offset = b * view.batch + head * view.head + token * view.token;
  return static_cast<const char*>(view.data) + offset * sizeof_element(problem.element);
}

// `rows` rows from `from`, times scale, to `to` [rows, padded].
template <typename Real>
void load_rows(const Problem& problem, const void* from, int64_t token, int64_t rows, int64_t padded,
               Real scale, Real* to) {
  const int64_t d = problem.d;
  if constexpr (sizeof(Real) == sizeof(float)) {
    if (problem.element == Element::kBFloat16) {
      return convert_rows(static_cast<const BFloat16*>(from), token, rows, d, padded, scale, to);
    }
    if (problem.element == Element::kHalf) {
      return convert_rows(static_cast<const Half*>(from), token, rows, d, padded, scale, to);
    }
  }
  convert_rows(static_cast<const Real*>(from), token, rows, d, padded, scale, to);
}

// Rows [rows, padded], times scale, to contiguous rows of d stored elements.
template <typename Real>
void store_rows(const Problem& problem, const Real* from, int64_t rows, int64_t padded, Real scale,
                void* to) {
  const int64_t d = problem.d;
  for (int64_t row = 0; row < rows; ++row, from += padded) {
    if (problem.element == Element::kBFloat16) {
      BFloat16* narrow = static_cast<BFloat16*>(to) + row * d;
      for (int64_t e = 0; e < d; ++e) narrow[e] = BFloat16::round(static_cast<float>(from[e] * scale));
    } else if (problem.element == Element::kHalf) {
      Half* narrow = static_cast<Half*>(to) + row * d;
      for (int64_t e = 0; e < d; ++e) narrow[e] = Half::round(static_cast<float>(from[e] * scale));
    } else {
      Real* same = static_cast<Real*>(to) + row * d;
      for (int64_t e = 0; e < d; ++e) same[e] = from[e] * scale;
    }
  }
}

// [rows, padded] to [d, kRows]; columns past the last row are zero.
template <typename Real>
void transpose_rows(const Real* from, int64_t rows, int64_t d, int64_t padded, Real* to) {
  for (int64_t e = 0; e < d; ++e) {
    for (int64_t row = 0; row < rows; ++row) to[e * kRows + row] = from[row * padded + e];
    for (int64_t row = rows; row < kRows; ++row) to[e * kRows + row] = 0;
  }
}

template <typename Real>
struct RowsOf {  // rows of padded length, in place or copied
  const Real* data;
  int64_t stride;
};

// A key tile's rows: where they lie when they already are whole vectors of the real type, else a copy.
template <typename Real>
RowsOf<Real> borrow_rows(const Problem& problem, const View& view, int64_t b, int64_t head, int64_t token,
                         int64_t rows, int64_t padded, Real* copy) {
  const void* from = element_at(problem, view, b, head, token);
  const Element own = sizeof(Real) == sizeof(float) ? Element::kFloat : Element::kDouble;
  if (problem.element == own && problem.d == padded) return {static_cast<const Real*>(from), view.token};
  load_rows(problem, from, view.token, rows, padded, Real(1), copy);
  return {copy, padded};
}

// Hands out 64-aligned pieces of a workspace; with no workspace it only counts the bytes.
class Carver {
 public:
  explicit Carver(void* start) : start_(static_cast<char*>(start)) {}
  template <typename Number>
  Number* take(int64_t count) {
    char* piece = start_ ? start_ + bytes_ : nullptr;
    bytes_ += (count * sizeof(Number) + 63) / 64 * 64;
    return reinterpret_cast<Number*>(piece);
  }
  size_t bytes() const { return bytes_; }

 private:
  char* start_;
  size_t bytes_ = 0;
};

inline int64_t padded_size(int64_t d) {
  return (d + kLanes - 1) / kLanes * kLanes;
}

}  // namespace openwork::cpu::OPENWORK_CPU_NAMESPACE
