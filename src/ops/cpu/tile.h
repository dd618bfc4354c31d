// Tiles of scores: kColumns keys by kRows queries, keys outermost, so that a vector holds one key's scores
// with kLanes neighbouring queries. Entries that are not causal pairs are pushed out of sight before gates
// are drawn (hide_future) and set to exact zeros after (clear_future): keys after their query, and places
// past the last query.
#pragma once
#include "ops/cpu/product.h"
#include "ops/cpu/rows.h"

namespace openwork::cpu::OPENWORK_CPU_NAMESPACE {

inline constexpr int64_t kTile = kRows * kColumns;

// Where a row block stands: queries [start, start + rows) of head h of sample b.
struct Block {
  const Problem* problem;
  int64_t b, h, index, start, rows, padded;

  Block(const Problem& of, int64_t sample, int64_t head, int64_t block)
      : problem(&of),
        b(sample),
        h(head),
        index(block),
        start(block * kRows),
        rows(of.T - start < kRows ? of.T - start : kRows),
        padded(padded_size(of.d)) {}

  int64_t columns(int64_t tile) const {  // keys of a tile that exist
    const int64_t left = problem->T - tile * kColumns;
    return left < kColumns ? left : kColumns;
  }
  bool has_future(int64_t tile) const { return tile == index || rows < kRows; }
  int64_t row_offset() const { return (b * problem->H + h) * problem->T + start; }  // in [B, H, T]
  template <typename Real>
  RowsOf<Real> keys(const View& view, int64_t tile, Real* copy) const {
    return borrow_rows(*problem, view, b, h / problem->group, tile * kColumns, columns(tile), padded, copy);
  }
};
static_assert(kRows == kColumns, "a row block's last tile is the one on the diagonal");

// tile[c, r] = right row c . left row r, with the left rows transposed [d, kRows].
template <typename Real>
inline void dot_tile(const Block& block, RowsOf<Real> right, const Real* left, int64_t columns, Real* tile) {
  set_product<Real>({right.data, right.stride, 1}, left, kRows, tile, kRows, columns, kRows,
                    block.problem->d);
}

template <typename Real>
void put_future(const Block& block, int64_t tile_index, int64_t columns, Real value, Real* tile) {
  using Whole = Index<Real>;
  const Lanes<Whole> end = fill(static_cast<Whole>(block.problem->T));
  for (int64_t c = 0; c < columns; ++c) {
    const Lanes<Whole> j = fill(static_cast<Whole>(tile_index * kColumns + c));
    for (int64_t r = 0; r < kRows; r += kLanes) {
      const Lanes<Whole> i = count_from(static_cast<Whole>(block.start + r));
      Real* at = tile + c * kRows + r;
      store(at, ((j <= i) & (i < end)) ? load(at) : fill(value));
    }
  }
}

template <typename Real>
inline void hide_future(const Block& block, int64_t tile_index, int64_t columns, Real* tile) {
  if (block.has_future(tile_index)) put_future(block, tile_index, columns, Real(-1e30), tile);
}

template <typename Real>
inline void clear_future(const Block& block, int64_t tile_index, int64_t columns, Real* tile) {
  if (block.has_future(tile_index)) put_future(block, tile_index, columns, Real(0), tile);
}

template <typename Real>
inline void add_scaled_row(Real* to, Real weight, const Real* from, int64_t padded) {
  for (int64_t e = 0; e < padded; e += kLanes) store(to + e, load(to + e) + weight * load(from + e));
}

// The open edges of a tile one by one: into query rows, to[r] += w[c, r] from[c], or into key rows,
// to[c] += w[c, r] from[r]. The sums have the order of the matrix product, so the result is the same.
template <bool IntoRows, typename Real>
void add_open_edges(const Real* weights, int64_t columns, RowsOf<Real> from, Real* to, int64_t to_stride,
                    int64_t padded) {
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t group = 0; group < kRows; group += kLanes) {
      uint32_t bits = nonzero_bits(load(weights + c * kRows + group));
      for (; bits; bits &= bits - 1) {
        const int64_t r = group + __builtin_ctz(bits);
        const int64_t target = IntoRows ? r : c, source = IntoRows ? c : r;
        add_scaled_row(to + target * to_stride, weights[c * kRows + r], from.data + source * from.stride,
                       padded);
      }
    }
  }
}

// Below this share of open gates, edges one by one are faster than the whole product.
inline bool is_sparse(int64_t open, int64_t columns) {
  return open * 8 < columns * kRows;
}

// A block's queries times the scale, as they lie (queries) and with lanes of query rows (transposed).
template <typename Real>
void load_queries(const Problem& problem, const Block& block, Real* queries, Real* transposed) {
  const void* from = element_at(problem, problem.q, block.b, block.h, block.start);
  load_rows(problem, from, problem.q.token, block.rows, block.padded, static_cast<Real>(problem.scale),
            queries);
  transpose_rows(queries, block.rows, problem.d, block.padded, transposed);
}

}  // namespace openwork::cpu::OPENWORK_CPU_NAMESPACE
