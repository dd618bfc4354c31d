#include "draw/stacked_bars.h"

#include <algorithm>
#include <numeric>

#include "draw/legend.h"
#include "draw/panel.h"

namespace openwork::draw {
namespace {

Colour colour_of(const StackedBars& bars, size_t part) {
  return part < bars.colours.size() ? bars.colours[part] : category_colour(static_cast<int>(part));
}

double tallest(const StackedBars& bars) {
  double most = 0;
  for (const BarGroup& group : bars.groups) {
    for (const auto& parts : group.heights)
      most = std::max(most, std::accumulate(parts.begin(), parts.end(), 0.0));
  }
  return most > 0 ? most : 1;
}

// The parts that occur at all, in their order: the legend leaves the others out.
std::vector<LegendEntry> make_legend(const StackedBars& bars) {
  std::vector<LegendEntry> entries;
  for (size_t part = 0; part < bars.parts.size(); ++part) {
    bool seen = false;
    for (const BarGroup& group : bars.groups) {
      for (const auto& heights : group.heights) seen |= part < heights.size() && heights[part] > 0;
    }
    if (seen) entries.push_back({bars.parts[part], colour_of(bars, part), Swatch::kBlock});
  }
  return entries;
}

void paint_group(Canvas& canvas, const StackedBars& bars, const BarGroup& group, const Rect& area,
                 double high, bool last) {
  canvas.write({area.x, area.y}, group.name, {.size = 8.5, .level = Level::kTop, .bold = true});
  const Panel panel(area.inset(0, group.name.empty() ? 0 : 12, 0, 0),
                    Axis::places(last ? bars.x_name : "", bars.places),
                    Axis::linear(bars.y_name, 0, high * 1.02, 4));
  panel.paint_axes(canvas);
  for (size_t place = 0; place < group.heights.size(); ++place) {
    double base = 0;
    for (size_t part = 0; part < group.heights[place].size(); ++part) {
      const double top = base + group.heights[place][part];
      const Point low = panel.at(static_cast<double>(place) + 0.1, base),
                  up = panel.at(static_cast<double>(place) + 0.9, top);
      if (top > base) canvas.fill({low.x, up.y, up.x - low.x, low.y - up.y}, colour_of(bars, part));
      base = top;
    }
  }
}

}  // namespace

Figure draw_stacked_bars(const StackedBars& bars) {
  const std::vector<LegendEntry> legend = make_legend(bars);
  const double legend_height = measure_legend(bars.width - 20, legend) + 6;
  const double height = measure_caption(bars.caption, bars.width) + legend_height +
                        bars.panel_height * static_cast<double>(std::max<size_t>(bars.groups.size(), 1));
  return {bars.width, height, [bars, legend, legend_height, height](Canvas& canvas) {
            const Rect area = paint_caption(canvas, {0, 0, bars.width, height}, bars.caption);
            paint_legend(canvas, area, legend);
            for (size_t n = 0; n < bars.groups.size(); ++n) {
              const Rect panel{area.x, area.y + legend_height + bars.panel_height * static_cast<double>(n),
                               area.width, bars.panel_height - 6};
              paint_group(canvas, bars, bars.groups[n], panel, tallest(bars), n + 1 == bars.groups.size());
            }
          }};
}

}  // namespace openwork::draw
