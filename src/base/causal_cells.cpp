#include "base/causal_cells.h"

#include <algorithm>
#include <cmath>

namespace openwork {
namespace {

constexpr double kCellsPerFigure = 4.5e6;
constexpr int64_t kFewestCells = 32;

}  // namespace

int64_t Cells::cell_of(int64_t token) const {
  int64_t cell = std::min(token * side / tokens, side - 1);
  while (first_token(cell) > token) --cell;
  while (cell + 1 < side && first_token(cell + 1) <= token) ++cell;
  return cell;
}

int64_t Cells::causal_pairs(int64_t row, int64_t column) const {
  if (column < row)
    return (first_token(row + 1) - first_token(row)) * (first_token(column + 1) - first_token(column));
  int64_t pairs = 0;
  for (int64_t i = first_token(row); i < first_token(row + 1); ++i) {
    pairs += std::max<int64_t>(0, std::min(first_token(column + 1), i + 1) - first_token(column));
  }
  return pairs;
}

double Cells::largest() const {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

Cells average_cells(std::span<const float> pattern, int64_t tokens, int64_t side) {
  Cells cells{tokens, std::clamp<int64_t>(side, 1, std::max<int64_t>(tokens, 1)), {}};
  cells.values.resize(static_cast<size_t>(cells.side * cells.side));
  std::vector<double> sums(static_cast<size_t>(cells.side));
  std::vector<int64_t> edges;
  for (int64_t n = 0; n <= cells.side; ++n) edges.push_back(cells.first_token(n));
  for (int64_t row = 0; row < cells.side && tokens > 0; ++row) {
    std::fill(sums.begin(), sums.end(), 0);
    for (int64_t i = edges[static_cast<size_t>(row)]; i < edges[static_cast<size_t>(row) + 1]; ++i) {
      const float* line = pattern.data() + i * tokens;
      for (int64_t column = 0; column <= row; ++column) {
        const int64_t end = std::min(edges[static_cast<size_t>(column) + 1], i + 1);
        double sum = 0;
        for (int64_t j = edges[static_cast<size_t>(column)]; j < end; ++j) sum += line[j];
        sums[static_cast<size_t>(column)] += sum;
      }
    }
    for (int64_t column = 0; column <= row; ++column) {
      const auto pairs = static_cast<double>(cells.causal_pairs(row, column));
      cells.values[static_cast<size_t>(row * cells.side + column)] =
          static_cast<float>(sums[static_cast<size_t>(column)] / pairs);
    }
  }
  return cells;
}

int64_t choose_cells(int64_t tokens, int64_t panels) {
  const double per_panel = kCellsPerFigure / static_cast<double>(std::max<int64_t>(panels, 1));
  const auto side = static_cast<int64_t>(std::sqrt(2 * per_panel));  // half of a panel's cells are causal
  return std::min(tokens, std::max(side, kFewestCells));
}

}  // namespace openwork
