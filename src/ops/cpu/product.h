// The matrix product of the kernels: C[m, n] (+)= sum over k of A[m, k] B[k, n], all six products of
// attention in one shape. A's elements are broadcast, so it may lie either way round (strides for m and k);
// B's and C's rows are contiguous and a multiple of kLanes long. Sums run over k in order, starting from C:
// the result does not depend on how m and n are cut, nor on whether products that add nothing are left out.
#pragma once
#include "ops/cpu/vector.h"

namespace openwork::cpu::OPENWORK_CPU_NAMESPACE {

template <typename Real>
struct Matrix {  // element (row, column) at data[row * row_stride + column * column_stride]
  const Real* data;
  int64_t row_stride, column_stride;
};

inline constexpr int kProductRows = 6;
// Vectors of a row held in registers: kProductRows times this many sums, and room for B's row.
template <typename Real>
inline constexpr int kProductVectors = (kRegisters == 32 ? 4 : 2) * 4 / static_cast<int>(sizeof(Real));

template <typename Real, int Rows, int Vectors, bool Fresh>
inline void product_block(Matrix<Real> a, const Real* b, int64_t b_stride, Real* c, int64_t c_stride,
                          int64_t depth) {
  Lanes<Real> sum[Rows][Vectors];
#pragma GCC unroll 8
  for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v) {
      sum[row][v] = Fresh ? Lanes<Real>{} : load(c + row * c_stride + v * kLanes);
    }
  }
  for (int64_t k = 0; k < depth; ++k) {
    Lanes<Real> right[Vectors];
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v) right[v] = load(b + k * b_stride + v * kLanes);
#pragma GCC unroll 8
    for (int row = 0; row < Rows; ++row) {
      const Lanes<Real> left = fill(a.data[row * a.row_stride + k * a.column_stride]);
#pragma GCC unroll 8
      for (int v = 0; v < Vectors; ++v) sum[row][v] += left * right[v];
    }
  }
#pragma GCC unroll 8
  for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v) store(c + row * c_stride + v * kLanes, sum[row][v]);
  }
}

// Rows left over after the last full block.
template <typename Real, int Rows, int Vectors, bool Fresh>
inline void product_rest(Matrix<Real> a, const Real* b, int64_t b_stride, Real* c, int64_t c_stride,
                         int64_t depth, int64_t rows) {
  if constexpr (Rows > 0) {
    if (rows == Rows) return product_block<Real, Rows, Vectors, Fresh>(a, b, b_stride, c, c_stride, depth);
    product_rest<Real, Rows - 1, Vectors, Fresh>(a, b, b_stride, c, c_stride, depth, rows);
  }
}

template <typename Real, int Vectors, bool Fresh>
void product_panel(Matrix<Real> a, const Real* b, int64_t b_stride, Real* c, int64_t c_stride, int64_t rows,
                   int64_t depth) {
  for (; rows >= kProductRows; rows -= kProductRows) {
    product_block<Real, kProductRows, Vectors, Fresh>(a, b, b_stride, c, c_stride, depth);
    a.data += kProductRows * a.row_stride;
    c += kProductRows * c_stride;
  }
  product_rest<Real, kProductRows - 1, Vectors, Fresh>(a, b, b_stride, c, c_stride, depth, rows);
}

template <typename Real, bool Fresh>
void multiply(Matrix<Real> a, const Real* b, int64_t b_stride, Real* c, int64_t c_stride, int64_t rows,
              int64_t columns, int64_t depth) {
  constexpr int kMost = kProductVectors<Real>;
  int64_t left = columns / kLanes;
  while (left > 0) {
    int64_t vectors = left < kMost ? left : kMost;
    if (left == 5 && kMost == 4) vectors = 3;  // 3 + 2 keeps the units busier than 4 + 1
    if (vectors == 4) {
      if constexpr (kMost >= 4) product_panel<Real, 4, Fresh>(a, b, b_stride, c, c_stride, rows, depth);
    } else if (vectors == 3) {
      if constexpr (kMost >= 3) product_panel<Real, 3, Fresh>(a, b, b_stride, c, c_stride, rows, depth);
    } else if (vectors == 2) {
      if constexpr (kMost >= 2) product_panel<Real, 2, Fresh>(a, b, b_stride, c, c_stride, rows, depth);
    } else {
      product_panel<Real, 1, Fresh>(a, b, b_stride, c, c_stride, rows, depth);
    }
    left -= vectors;
    b += vectors * kLanes;
    c += vectors * kLanes;
  }
}

// C = A B.
template <typename Real>
inline void set_product(Matrix<Real> a, const Real* b, int64_t b_stride, Real* c, int64_t c_stride,
                        int64_t rows, int64_t columns, int64_t depth) {
  multiply<Real, true>(a, b, b_stride, c, c_stride, rows, columns, depth);
}

// C += A B.
template <typename Real>
inline void add_product(Matrix<Real> a, const Real* b, int64_t b_stride, Real* c, int64_t c_stride,
                        int64_t rows, int64_t columns, int64_t depth) {
  multiply<Real, false>(a, b, b_stride, c, c_stride, rows, columns, depth);
}

}  // namespace openwork::cpu::OPENWORK_CPU_NAMESPACE
