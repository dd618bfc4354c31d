#include "draw/heat_map.h"

#include <algorithm>
#include <cmath>

#include "draw/legend.h"
#include "draw/ticks.h"

namespace openwork::draw {
namespace {

constexpr double kLabelSize = 6.5, kBarHeight = 30;

struct Layout {
  double cell = 0, left = 0, below = 0, top = 0;
  size_t rows = 0, columns = 0;
  double width() const { return left + cell * static_cast<double>(columns) + 24; }
  double height() const { return top + cell * static_cast<double>(rows) + below; }
};

double widest(const std::vector<std::string>& labels) {
  double width = 0;
  for (const std::string& label : labels)
    width = std::max(width, measure_text(label, {.size = kLabelSize}).width);
  return width;
}

Layout lay_out(const HeatMap& map) {
  Layout layout;
  layout.rows = map.values.size();
  for (const auto& row : map.values) layout.columns = std::max(layout.columns, row.size());
  const double most = static_cast<double>(std::max<size_t>({layout.rows, layout.columns, 1}));
  layout.cell = map.cell > 0 ? map.cell : std::clamp(360 / most, 6.0, map.write_values ? 26.0 : 18.0);
  layout.left = widest(map.rows) + 6 + (map.row_title.empty() ? 0 : 12);
  const double label = widest(map.columns);
  layout.below = (label > layout.cell - 1 ? label : kLabelSize + 2) + 6 +
                 (map.column_title.empty() ? 0 : 12) + kBarHeight + 6;
  return layout;
}

double find_high(const HeatMap& map, bool& negative) {
  double high = 0;
  for (const auto& row : map.values) {
    for (const double value : row) {
      if (!std::isfinite(value)) continue;
      high = std::max(high, std::abs(value));
      negative |= value < 0;
    }
  }
  return map.high.value_or(high > 0 ? high : 1);
}

// White to dark orange, for values below zero.
const Palette& negative_palette() {
  static const Palette palette = [] {
    Palette made = attention_palette();
    for (PaletteEntry& entry : made) std::swap(entry.red, entry.blue);
    return made;
  }();
  return palette;
}

PaletteImage shade_cells(const HeatMap& map, const Layout& layout, const ColourScale& scale) {
  PaletteImage image{
      static_cast<int>(layout.columns), static_cast<int>(layout.rows), {}, &attention_palette()};
  for (const auto& row : map.values) {
    for (size_t n = 0; n < layout.columns; ++n)
      image.pixels.push_back(scale.index_of(n < row.size() ? row[n] : 0));
  }
  return image;
}

void paint_names(Canvas& canvas, const HeatMap& map, const Layout& layout, const Rect& grid) {
  const int stride = std::max(1, static_cast<int>(std::ceil((kLabelSize + 1) / layout.cell)));
  for (size_t n = 0; n < map.rows.size() && n < layout.rows; n += static_cast<size_t>(stride)) {
    canvas.write({grid.x - 3, grid.y + (static_cast<double>(n) + 0.5) * layout.cell}, map.rows[n],
                 {.size = kLabelSize, .colour = kFaint, .align = Align::kEnd, .level = Level::kMiddle});
  }
  const bool upright = widest(map.columns) > layout.cell - 1;
  for (size_t n = 0; n < map.columns.size() && n < layout.columns;
       n += static_cast<size_t>(upright ? stride : 1)) {
    canvas.write({grid.x + (static_cast<double>(n) + 0.5) * layout.cell, grid.bottom() + 3}, map.columns[n],
                 {.size = kLabelSize,
                  .colour = kFaint,
                  .align = upright ? Align::kEnd : Align::kMiddle,
                  .level = upright ? Level::kMiddle : Level::kTop,
                  .turn = upright ? -90.0 : 0.0});
  }
  canvas.write({grid.centre().x, grid.bottom() + layout.below - kBarHeight - 6}, map.column_title,
               {.size = 8, .align = Align::kMiddle, .level = Level::kBottom});
  canvas.write({grid.x - layout.left + 4, grid.centre().y}, map.row_title,
               {.size = 8, .align = Align::kMiddle, .level = Level::kMiddle, .turn = -90.0});
}

void paint_values(Canvas& canvas, const HeatMap& map, const Layout& layout, const Rect& grid,
                  const ColourScale& scale) {
  for (size_t y = 0; y < layout.rows; ++y) {
    for (size_t x = 0; x < map.values[y].size(); ++x) {
      const double value = map.values[y][x];
      const bool dark = scale.index_of(std::abs(value)) > 130;
      canvas.write({grid.x + (static_cast<double>(x) + 0.5) * layout.cell,
                    grid.y + (static_cast<double>(y) + 0.5) * layout.cell},
                   format_number(std::round(value * 100) / 100),
                   {.size = std::min(6.5, layout.cell / 3.4),
                    .colour = dark ? kWhite : kInk,
                    .align = Align::kMiddle,
                    .level = Level::kMiddle});
    }
  }
}

void paint_heat_map(Canvas& canvas, const HeatMap& map, const Layout& layout, const Rect& area) {
  bool negative = false;
  const ColourScale scale{find_high(map, negative), map.shade};
  const Rect grid{area.x + layout.left, area.y, layout.cell * static_cast<double>(layout.columns),
                  layout.cell * static_cast<double>(layout.rows)};
  canvas.paint_image(grid, shade_cells(map, layout, scale));
  // The negative cells alone, each as its own small block, so that positive ones stay as they are.
  for (size_t y = 0; y < layout.rows && negative; ++y) {
    for (size_t x = 0; x < map.values[y].size(); ++x) {
      if (!(map.values[y][x] < 0)) continue;
      canvas.fill({grid.x + static_cast<double>(x) * layout.cell,
                   grid.y + static_cast<double>(y) * layout.cell, layout.cell, layout.cell},
                  palette_colour(negative_palette(), scale.index_of(-map.values[y][x])));
    }
  }
  canvas.frame(grid, {kHairline, 0.6});
  paint_names(canvas, map, layout, grid);
  if (map.write_values) paint_values(canvas, map, layout, grid, scale);
  const std::string name = negative ? map.value_name + " (below zero: orange)" : map.value_name;
  paint_colour_bar(canvas,
                   {grid.x, grid.bottom() + layout.below - kBarHeight,
                    std::min(140.0, std::max(60.0, grid.width)), kBarHeight},
                   scale, name);
}

}  // namespace

Figure draw_heat_map(const HeatMap& map) {
  const Layout layout = lay_out(map);
  const double width = std::max(layout.width() + 20, 200.0);
  const double height = layout.height() + measure_caption(map.caption, width);
  return {width, height, [map, layout, width, height](Canvas& canvas) {
            paint_heat_map(canvas, map, layout, paint_caption(canvas, {0, 0, width, height}, map.caption));
          }};
}

}  // namespace openwork::draw
