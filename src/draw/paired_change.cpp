#include "draw/paired_change.h"

#include <algorithm>
#include <cmath>

#include "draw/legend.h"
#include "draw/panel.h"

namespace openwork::draw {
namespace {

double mean_of(const std::vector<double>& values) {
  double total = 0;
  size_t count = 0;
  for (const double value : values) {
    if (std::isfinite(value)) total += value, ++count;
  }
  return count > 0 ? total / static_cast<double>(count) : std::nan("");
}

Axis make_axis(const PairedQuantity& quantity) {
  std::vector<double> values = quantity.before;
  values.insert(values.end(), quantity.after.begin(), quantity.after.end());
  if (!quantity.logarithmic) return Axis::around("", values, true);
  std::erase_if(values, [](double value) { return !(value > 0); });
  if (values.empty()) return Axis::logarithm("", 0.1, 1);
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return Axis::logarithm("", *least / 1.3, *most * 1.3);
}

// Names too long to stand under a panel stand above all of them.
std::vector<LegendEntry> make_legend(const PairedChange& change) {
  const auto fits = [&](const std::string& name) {
    return measure_text(name, {.size = 7}).width < 0.32 * change.panel_width;
  };
  if (fits(change.left) && fits(change.right)) return {};
  return {{change.left, kDense, Swatch::kDot}, {change.right, kSparse, Swatch::kDot}};
}

void paint_quantity(Canvas& canvas, const PairedChange& change, const PairedQuantity& quantity,
                    const Rect& area) {
  canvas.write({area.x + 2, area.y}, quantity.name,
               {.size = 8, .level = Level::kTop, .bold = true, .width = area.width - 4});
  canvas.write({area.x + 2, area.bottom()}, quantity.note,
               {.size = 6.5, .colour = kFaint, .level = Level::kBottom, .width = area.width - 4});
  const double title =
      canvas.measure(quantity.name, {.size = 8, .bold = true, .width = area.width - 4}).height + 2;
  const double note = quantity.note.empty()
                          ? 0
                          : canvas.measure(quantity.note, {.size = 6.5, .width = area.width - 4}).height + 2;
  const Axis y = make_axis(quantity);
  const std::vector<std::string> names =
      make_legend(change).empty() ? std::vector{change.left, change.right} : std::vector<std::string>(2);
  const Panel panel(area.inset(0, title, 0, note), Axis::places("", names), y);
  panel.paint_axes(canvas);
  const size_t count = std::min(quantity.before.size(), quantity.after.size());
  const double alpha = std::clamp(12.0 / static_cast<double>(std::max<size_t>(count, 1)), 0.08, 0.5);
  for (size_t n = 0; n < count; ++n) {
    if (!std::isfinite(quantity.before[n]) || !std::isfinite(quantity.after[n])) continue;
    canvas.line(panel.at(0.5, std::max(quantity.before[n], y.low)),
                panel.at(1.5, std::max(quantity.after[n], y.low)), {kFaint.with_alpha(alpha), 0.7});
  }
  const double before = mean_of(quantity.before), after = mean_of(quantity.after);
  if (!std::isfinite(before) || !std::isfinite(after)) return;
  canvas.line(panel.at(0.5, before), panel.at(1.5, after), {kInk, 1.4});
  canvas.fill_circle(panel.at(0.5, before), 3.2, kDense);
  canvas.fill_circle(panel.at(1.5, after), 3.2, kSparse);
}

}  // namespace

Figure draw_paired_change(const PairedChange& change) {
  const size_t count = change.quantities.size(),
               columns = std::min<size_t>(static_cast<size_t>(std::max(1, change.columns)),
                                          std::max<size_t>(count, 1));
  const size_t rows = (count + columns - 1) / columns;
  const double width = 20 + change.panel_width * static_cast<double>(columns);
  const std::vector<LegendEntry> entries = make_legend(change);
  const double legend = entries.empty() ? 0 : measure_legend(width - 20, entries) + 5;
  const double height =
      measure_caption(change.caption, width) + legend + change.panel_height * static_cast<double>(rows);
  return {width, height, [change, columns, entries, legend, width, height](Canvas& canvas) {
            Rect area = paint_caption(canvas, {0, 0, width, height}, change.caption);
            paint_legend(canvas, area, entries);
            area = area.inset(0, legend, 0, 0);
            for (size_t n = 0; n < change.quantities.size(); ++n) {
              const Rect cell{area.x + change.panel_width * static_cast<double>(n % columns),
                              area.y + change.panel_height * static_cast<double>(n / columns),
                              change.panel_width - 8, change.panel_height - 8};
              paint_quantity(canvas, change, change.quantities[n], cell);
            }
          }};
}

}  // namespace openwork::draw
