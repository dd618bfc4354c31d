#include "draw/score_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace openwork::draw {
namespace {

constexpr double kTop = 34, kCellWidth = 40, kCellHeight = 15, kSumGap = 5, kTextSize = 6.5,
                 kColumnNames = 88;

struct Sums {
  std::vector<double> rows, columns;
  double all = 0, largest = 0;  // the largest size of any entry or sum
};

Sums add_up(const ScoreGrid& grid) {
  Sums sums{std::vector<double>(grid.rows.size(), 0), std::vector<double>(grid.columns.size(), 0)};
  for (size_t r = 0; r < grid.rows.size(); ++r) {
    for (size_t c = 0; c < grid.columns.size(); ++c) {
      const double weight = grid.weights[r][c];
      sums.rows[r] += weight, sums.columns[c] += weight, sums.all += weight;
      sums.largest = std::max(sums.largest, std::abs(weight));
    }
  }
  for (const double sum : sums.rows) sums.largest = std::max(sums.largest, std::abs(sum));
  for (const double sum : sums.columns) sums.largest = std::max(sums.largest, std::abs(sum));
  return sums;
}

void paint_cell(Canvas& canvas, const Rect& area, double weight, double largest, bool sum) {
  const double share = largest > 0 ? std::min(1.0, std::abs(weight) / largest) : 0;
  canvas.fill(area, (weight < 0 ? kNegative : kPositive).with_alpha(0.85 * std::sqrt(share)));
  canvas.frame(area, {kHairline, sum ? 0.8 : 0.4});
  canvas.write(area.centre(), fmt::format("{:+.2f}", weight),
               {.size = kTextSize,
                .colour = share > 0.35 ? kWhite : kInk,
                .align = Align::kMiddle,
                .level = Level::kMiddle,
                .bold = sum});
}

void paint_grid(Canvas& canvas, const ScoreGrid& grid, const Sums& sums, double names) {
  const size_t R = grid.rows.size(), C = grid.columns.size();
  const auto cell = [&](size_t r, size_t c) {
    return Rect{names + static_cast<double>(c) * kCellWidth + (c == C ? kSumGap : 0),
                kTop + kColumnNames + static_cast<double>(r) * kCellHeight + (r == R ? kSumGap : 0),
                kCellWidth, kCellHeight};
  };
  canvas.write({0, 0}, grid.title, {.size = 9.5, .level = Level::kTop, .bold = true});
  canvas.write({0, 15}, grid.caption, {.size = 8, .level = Level::kTop});
  for (size_t c = 0; c <= C; ++c) {
    const Rect top = cell(0, c);
    canvas.write({top.centre().x + 2, top.y - 4}, c == C ? "all keys" : grid.columns[c],
                 {.size = kTextSize, .colour = kInk, .level = Level::kMiddle, .bold = c == C, .turn = -60});
  }
  for (size_t r = 0; r <= R; ++r) {
    const Rect left = cell(r, 0);
    canvas.write({left.x - 4, left.centre().y}, r == R ? "all queries" : grid.rows[r],
                 {.size = kTextSize, .align = Align::kEnd, .level = Level::kMiddle, .bold = r == R});
    for (size_t c = 0; c < C; ++c)
      paint_cell(canvas, cell(r, c), r == R ? sums.columns[c] : grid.weights[r][c], sums.largest, r == R);
    if (r < R) paint_cell(canvas, cell(r, C), sums.rows[r], sums.largest, true);
  }
  canvas.frame(cell(R, C), {kMark, 1.2});
  canvas.write(cell(R, C).centre(), fmt::format("{:+.2f}", sums.all),
               {.size = kTextSize + 0.5, .align = Align::kMiddle, .level = Level::kMiddle, .bold = true});
}

}  // namespace

Figure draw_score_grid(const ScoreGrid& grid) {
  double names = measure_text("all queries", {.size = kTextSize, .bold = true}).width;
  for (const std::string& row : grid.rows)
    names = std::max(names, measure_text(row, {.size = kTextSize}).width);
  names += 8;
  const double width =
      std::max({names + static_cast<double>(grid.columns.size() + 1) * kCellWidth + kSumGap + 50,
                measure_text(grid.title, {.size = 9.5, .bold = true}).width,
                measure_text(grid.caption, {.size = 8}).width});
  const double height =
      kTop + kColumnNames + static_cast<double>(grid.rows.size() + 1) * kCellHeight + kSumGap + 12;
  const Sums sums = add_up(grid);
  return {width, height, [grid, sums, names](Canvas& canvas) { paint_grid(canvas, grid, sums, names); }};
}

}  // namespace openwork::draw
