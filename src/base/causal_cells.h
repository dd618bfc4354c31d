// A causal pattern as the cells of a picture: one cell per (query, key) pair, or, where a prompt has more
// tokens than a panel has room for, the mean over the causal pairs that fall into each cell. Nothing is
// clipped or left out: the cells' values times their pairs sum to the pattern's own sum.
//   Cells cells = average_cells(pattern, 500, choose_cells(500, 2048));
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace openwork {

struct TokenPair {
  int64_t query = 0, key = 0;
};

struct Cells {
  int64_t tokens = 0;         // of the prompt
  int64_t side = 0;           // cells along each edge, at most `tokens`
  std::vector<float> values;  // [side * side], row = query, 0 above the diagonal

  // Tokens first_token(n) .. first_token(n + 1) - 1 are in row or column n.
  int64_t first_token(int64_t cell) const { return cell * tokens / side; }
  int64_t cell_of(int64_t token) const;
  int64_t causal_pairs(int64_t row, int64_t column) const;
  double largest() const;
};

// `pattern` is [tokens * tokens], row = query; what stands above its diagonal is not read.
Cells average_cells(std::span<const float> pattern, int64_t tokens, int64_t side);

// Cells along an edge for `panels` patterns in one figure: all tokens where they are few, else so many that
// the figure's cells stay near 4.5 million and an SVG under 10 MB.
int64_t choose_cells(int64_t tokens, int64_t panels);

}  // namespace openwork
