#include "draw/trace_layout.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace openwork::draw {
namespace {

constexpr double kNames = 54;  // room for the rows' names, left
constexpr double kBetweenColumns = 13, kBetweenRows = 27, kEmptyRow = 13, kInCell = 6;
constexpr double kSmallText = 6, kLargeText = 8.2, kTokenText = 7;
constexpr size_t kMostLyingTokens = 16;  // beyond so many, tokens stand upright
constexpr double kUprightColumn = 12;
constexpr double kThinnest = 0.5, kThickest = 6;

struct Grid {
  std::vector<double> columns, rows;  // widths, heights
};

TextSize measure_lines(const std::vector<std::string>& lines, double size) {
  TextSize all;
  for (const std::string& line : lines) {
    all.width = std::max(all.width, measure_text(line, {.size = size}).width);
    all.height += size * kTraceLine;
  }
  return all;
}

bool is_answer(const TracePanel& panel, const TraceBox& box) {
  return box.row + 1 == static_cast<int>(panel.rows.size());
}

double text_size(const TracePanel& panel, const TraceBox& box, const TraceScale& scale) {
  if (box.row == 0) return kTokenText;
  if (is_answer(panel, box)) return kLargeText;
  const double share =
      scale.influence > 0 ? std::sqrt(std::clamp(box.influence / scale.influence, 0.0, 1.0)) : 0;
  return kSmallText + (kLargeText - kSmallText) * share;
}

// A box is its lines and the room around them, of which a strong one has more.
TextSize box_size(const TracePanel& panel, const TraceBox& box, double text, bool turned) {
  const TextSize lines = measure_lines(box.lines, text);
  if (box.row == 0 && turned) return {kUprightColumn - 1.5, lines.width + 7};
  const double room = 3 + (text - kSmallText) * 1.2;
  return {std::max(lines.width + 2 * room, box.row == 0 ? 12.0 : 26.0),
          lines.height + (is_answer(panel, box) ? 8 : room)};
}

// How high the boxes of each cell (column, row) are, one above the other.
std::map<std::pair<int, int>, double> measure_cells(const TracePanel& panel,
                                                    const std::vector<TextSize>& sizes) {
  std::map<std::pair<int, int>, double> heights;
  for (size_t n = 0; n < panel.boxes.size(); ++n) {
    const auto [cell, first] = heights.try_emplace({panel.boxes[n].column, panel.boxes[n].row}, -kInCell);
    cell->second += sizes[n].height + kInCell;
  }
  return heights;
}

// Answers stand side by side and may reach to the left over other columns: they widen none.
Grid measure_grid(const TracePanel& panel, const std::vector<TextSize>& sizes) {
  Grid grid{std::vector<double>(panel.tokens.size(), kUprightColumn),
            std::vector<double>(panel.rows.size(), 0)};
  const std::map<std::pair<int, int>, double> cells = measure_cells(panel, sizes);
  for (size_t n = 0; n < panel.boxes.size(); ++n) {
    const TraceBox& box = panel.boxes[n];
    double& column = grid.columns.at(static_cast<size_t>(box.column));
    double& row = grid.rows.at(static_cast<size_t>(box.row));
    if (!is_answer(panel, box))
      column = std::max(column, sizes[n].width + (box.row == 0 ? 4 : kBetweenColumns));
    row = std::max(row, is_answer(panel, box) ? sizes[n].height : cells.at({box.column, box.row}));
  }
  return grid;
}

bool on_one_grid(const std::vector<TracePanel>& panels) {
  return std::all_of(panels.begin(), panels.end(), [&](const TracePanel& panel) {
    return panel.tokens == panels.front().tokens && panel.rows.size() == panels.front().rows.size();
  });
}

void widen(Grid& grid, const Grid& other) {
  for (size_t n = 0; n < grid.columns.size(); ++n)
    grid.columns[n] = std::max(grid.columns[n], other.columns[n]);
  for (size_t n = 0; n < grid.rows.size(); ++n) grid.rows[n] = std::max(grid.rows[n], other.rows[n]);
}

void place_rows(const Grid& grid, TraceLayout& layout) {
  std::vector<double> heights;
  for (const double row : grid.rows) heights.push_back(row > 0 ? row : kEmptyRow);
  layout.height = 0;
  for (size_t n = 0; n < heights.size(); ++n)
    layout.height += heights[n] + (n > 0 && grid.rows[n] > 0 ? kBetweenRows : 0);
  double bottom = layout.height;
  for (size_t n = 0; n < heights.size(); ++n) {
    if (n > 0 && grid.rows[n] > 0) bottom -= kBetweenRows;
    layout.row_middles.push_back(bottom - heights[n] / 2);
    bottom -= heights[n];
  }
}

void place_columns(const Grid& grid, TraceLayout& layout) {
  double x = kNames;
  for (const double column : grid.columns) {
    layout.column_middles.push_back(x + column / 2);
    x += column;
  }
  layout.width = x + 2;
}

// Answers from right to left, the first one in its own column; everything else in the middle of its cell, from above in
// the order of the panel.
void place_boxes(const TracePanel& panel, const std::vector<TextSize>& sizes, TraceLayout& layout) {
  const std::map<std::pair<int, int>, double> heights = measure_cells(panel, sizes);
  std::map<std::pair<int, int>, double> placed;  // how much of each cell is taken
  double answers_to = layout.width;
  for (size_t n = 0; n < panel.boxes.size(); ++n) {
    const TraceBox& box = panel.boxes[n];
    const auto [width, height] = sizes[n];
    double x = layout.column_middles[static_cast<size_t>(box.column)] - width / 2;
    const std::pair cell(box.column, box.row);
    const double high = is_answer(panel, box) ? height : heights.at(cell);
    double y = layout.row_middles[static_cast<size_t>(box.row)] - high / 2 + placed[cell];
    if (!is_answer(panel, box)) placed[cell] += height + kInCell;
    if (is_answer(panel, box)) {
      x = std::min(x, answers_to - width);
      answers_to = x - kBetweenColumns;
    } else if (box.row == 0) {
      y = layout.height - (layout.height - layout.row_middles[0]) * 2;  // tokens hang from one line
    }
    layout.boxes[n] = {x, y, width, height};
  }
}

// Where on its left side each move enters a box: spread over the side, those from the furthest left on top.
std::vector<double> entry_heights(const TracePanel& panel, const TraceLayout& layout) {
  std::map<int, std::vector<size_t>> arriving;
  for (size_t n = 0; n < panel.moves.size(); ++n) arriving[panel.moves[n].to].push_back(n);
  std::vector<double> heights(panel.moves.size(), 0);
  for (auto& [box, moves] : arriving) {
    std::stable_sort(moves.begin(), moves.end(), [&](size_t a, size_t b) {
      return layout.boxes[static_cast<size_t>(panel.moves[a].from)].x <
             layout.boxes[static_cast<size_t>(panel.moves[b].from)].x;
    });
    const Rect& area = layout.boxes[static_cast<size_t>(box)];
    for (size_t n = 0; n < moves.size(); ++n)
      heights[moves[n]] =
          area.y + area.height * (static_cast<double>(n) + 1) / (static_cast<double>(moves.size()) + 1);
  }
  return heights;
}

// Between tokens: up out of the source, then right into the target's side. Within a token: straight up, bowed
// where other boxes stand between.
TraceCurve make_curve(const Rect& from, const Rect& to, double entry, bool between_tokens, bool next_row) {
  if (!between_tokens) {
    const Point start{from.centre().x, from.y}, end{to.centre().x, to.bottom() + 1};
    const double side = next_row ? 0 : std::max(from.width, to.width) * 0.5 + 8, rise = start.y - end.y;
    return {start, {start.x + side, start.y - 0.4 * rise}, {end.x + side, end.y + 0.4 * rise}, end, 0, false};
  }
  const Point end{to.x - 1, entry};
  if (from.y - end.y < 8) {  // beside each other: out of the top and over
    const Point start{from.right() - 4, from.y};
    const double reach = end.x - start.x, lift = std::min(26.0, 8 + 0.12 * reach);
    return {start, {start.x + 0.2 * reach, start.y - lift}, {end.x - 0.35 * reach, end.y - lift}, end, 0,
            true};
  }
  const Point start{from.x + 0.72 * from.width, from.y};
  const double reach = end.x - start.x, rise = start.y - end.y;
  return {start,
          {start.x + 0.22 * reach, start.y - 0.62 * rise},
          {end.x - std::max(12.0, 0.42 * reach), end.y},
          end,
          0,
          true};
}

void place_curves(const TracePanel& panel, const TraceScale& scale, TraceLayout& layout) {
  const std::vector<double> entries = entry_heights(panel, layout);
  for (size_t n = 0; n < panel.moves.size(); ++n) {
    const TraceMove& move = panel.moves[n];
    const TraceBox &from = panel.boxes[static_cast<size_t>(move.from)],
                   &to = panel.boxes[static_cast<size_t>(move.to)];
    const Rect &below = layout.boxes[static_cast<size_t>(move.from)],
               &above = layout.boxes[static_cast<size_t>(move.to)];
    bool free_between = true;
    for (size_t b = 0; b < panel.boxes.size(); ++b)
      free_between &= !(panel.boxes[b].column == from.column && layout.boxes[b].bottom() <= below.y + 1 &&
                        layout.boxes[b].y >= above.bottom() - 1);
    TraceCurve curve = make_curve(below, above, entries[n], from.column != to.column, free_between);
    const double share = scale.weight > 0 ? std::min(1.0, std::abs(move.weight) / scale.weight) : 0;
    curve.width = kThinnest + share * (kThickest - kThinnest);
    layout.curves.push_back(curve);
  }
}

bool touch(const Rect& a, const Rect& b) {
  return a.x < b.right() && b.x < a.right() && a.y < b.bottom() && b.y < a.bottom();
}

bool is_free(const Rect& area, const TraceLayout& layout) {
  if (area.x < kNames || area.right() > layout.width || area.y < 0 || area.bottom() > layout.height)
    return false;
  for (const Rect& box : layout.boxes) {
    if (touch(area, box.inset(-1.5, -1.5, -1.5, -1.5))) return false;
  }
  return std::none_of(layout.labels.begin(), layout.labels.end(),
                      [&](const TraceLabel& label) { return touch(area, label.area.inset(-2, -2, -2, -2)); });
}

// The strongest moves choose first: on the curve where that is free, else a little beside it.
void place_labels(const TracePanel& panel, TraceLayout& layout) {
  std::vector<size_t> order(panel.moves.size());
  for (size_t n = 0; n < order.size(); ++n) order[n] = n;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::abs(panel.moves[a].weight) > std::abs(panel.moves[b].weight);
  });
  for (const size_t n : order) {
    if (panel.moves[n].heads.empty()) continue;
    const TextSize text = measure_lines(panel.moves[n].heads, kTraceLabelSize);
    const double width = text.width + 5, height = text.height + 3;
    bool placed = false;
    for (const double aside : {0.0, 9.0, -9.0}) {
      for (const double t : {0.5, 0.44, 0.56, 0.38, 0.62, 0.32, 0.68, 0.26, 0.74, 0.2, 0.8}) {
        const Point middle = layout.curves[n].at(t);
        const Rect area{middle.x - width / 2 + aside, middle.y - height / 2 + aside, width, height};
        if (placed || !is_free(area, layout)) continue;
        layout.labels.push_back({area, n});
        placed = true;
      }
    }
  }
}

}  // namespace

Point TraceCurve::at(double t) const {
  const double s = 1 - t, a = s * s * s, b = 3 * s * s * t, c = 3 * s * t * t, d = t * t * t;
  return {a * from.x + b * bend1.x + c * bend2.x + d * to.x,
          a * from.y + b * bend1.y + c * bend2.y + d * to.y};
}

TraceScale measure_trace(const std::vector<TracePanel>& panels) {
  TraceScale scale;
  for (const TracePanel& panel : panels) {
    for (const TraceBox& box : panel.boxes) {
      if (!is_answer(panel, box)) scale.influence = std::max(scale.influence, box.influence);
    }
    for (const TraceMove& move : panel.moves) {
      const bool between = panel.boxes[static_cast<size_t>(move.from)].column !=
                           panel.boxes[static_cast<size_t>(move.to)].column;
      if (between) scale.weight = std::max(scale.weight, std::abs(move.weight));
    }
  }
  return scale;
}

std::vector<TraceLayout> lay_out_traces(const std::vector<TracePanel>& panels, const TraceScale& scale) {
  std::vector<TraceLayout> layouts(panels.size());
  std::vector<std::vector<TextSize>> sizes(panels.size());
  std::vector<Grid> grids;
  for (size_t p = 0; p < panels.size(); ++p) {
    layouts[p].turned = panels[p].tokens.size() > kMostLyingTokens;
    layouts[p].boxes.resize(panels[p].boxes.size());
    for (const TraceBox& box : panels[p].boxes) {
      layouts[p].text_sizes.push_back(text_size(panels[p], box, scale));
      sizes[p].push_back(box_size(panels[p], box, layouts[p].text_sizes.back(), layouts[p].turned));
    }
    grids.push_back(measure_grid(panels[p], sizes[p]));
  }
  if (!panels.empty() && on_one_grid(panels)) {
    for (const Grid& grid : grids) widen(grids.front(), grid);
    std::fill(grids.begin() + 1, grids.end(), Grid(grids.front()));
  }
  for (size_t p = 0; p < panels.size(); ++p) {
    place_columns(grids[p], layouts[p]);
    place_rows(grids[p], layouts[p]);
    place_boxes(panels[p], sizes[p], layouts[p]);
    place_curves(panels[p], scale, layouts[p]);
    place_labels(panels[p], layouts[p]);
  }
  return layouts;
}

}  // namespace openwork::draw
