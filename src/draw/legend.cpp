#include "draw/legend.h"

#include <algorithm>

#include "draw/figure.h"
#include "draw/ticks.h"

namespace openwork::draw {
namespace {

constexpr double kSize = 7.5, kRow = 12, kSwatch = 12, kGap = 4, kBetween = 14;

void paint_swatch(Canvas& canvas, const Rect& area, const LegendEntry& entry) {
  const Point centre = area.centre();
  switch (entry.swatch) {
    case Swatch::kLine:
      canvas.line({area.x, centre.y}, {area.right(), centre.y}, {entry.colour, 1.6, entry.dashes});
      break;
    case Swatch::kBlock:
      canvas.fill({area.x + 2, centre.y - 4, 8, 8}, entry.colour);
      break;
    case Swatch::kDot:
      canvas.fill_circle(centre, 2.6, entry.colour);
      break;
    case Swatch::kFrame:
      canvas.frame({area.x + 2, centre.y - 4, 8, 8}, {entry.colour, 1.2});
      break;
  }
}

// Calls place(entry, x, y) for each entry where it stands; returns the height of all rows.
template <typename Place>
double lay_rows(double width, const std::vector<LegendEntry>& entries, const Place& place) {
  double x = 0, y = 0;
  for (const LegendEntry& entry : entries) {
    const double needed = kSwatch + kGap + measure_text(entry.label, {.size = kSize}).width;
    if (x > 0 && x + needed > width) x = 0, y += kRow;
    place(entry, x, y);
    x += needed + kBetween;
  }
  return entries.empty() ? 0 : y + kRow;
}

}  // namespace

double paint_legend(Canvas& canvas, const Rect& area, const std::vector<LegendEntry>& entries) {
  return lay_rows(area.width, entries, [&](const LegendEntry& entry, double x, double y) {
    paint_swatch(canvas, {area.x + x, area.y + y, kSwatch, kRow}, entry);
    canvas.write({area.x + x + kSwatch + kGap, area.y + y + kRow / 2}, entry.label,
                 {.size = kSize, .level = Level::kMiddle});
  });
}

double measure_legend(double width, const std::vector<LegendEntry>& entries) {
  return lay_rows(width, entries, [](const LegendEntry&, double, double) {});
}

void paint_colour_bar(Canvas& canvas, const Rect& area, const ColourScale& scale, const std::string& name,
                      bool overflow) {
  const double name_height = name.empty() ? 0 : 11;
  const Rect bar{area.x, area.y + name_height, area.width, std::max(4.0, area.height - name_height - 11)};
  canvas.write({area.x, area.y}, name, {.size = 7, .colour = kFaint, .level = Level::kTop});
  PaletteImage image{256, 1, std::vector<uint8_t>(256), &attention_palette()};
  for (int n = 0; n < 256; ++n) image.pixels[static_cast<size_t>(n)] = static_cast<uint8_t>(n);
  canvas.paint_image(bar, image);
  canvas.frame(bar, {kHairline, 0.5});
  double free_from = -1e9;
  std::vector<Tick> ticks = choose_ticks(0, scale.high, 4);
  if (scale.high - ticks.back().value > 0.12 * scale.high)
    ticks.push_back({scale.high, format_number(scale.high)});
  if (overflow && !ticks.empty()) ticks.back().label = "≥ " + ticks.back().label;
  for (const Tick& tick : ticks) {
    const double x = bar.x + bar.width * scale.index_of(tick.value) / 255.0;
    const double half = canvas.measure(tick.label, {.size = 6.5}).width / 2 + 1;
    canvas.line({x, bar.bottom()}, {x, bar.bottom() + 2}, {kFaint, 0.5});
    if (x - half < free_from) continue;
    free_from = x + half;
    canvas.write({x, bar.bottom() + 2}, tick.label,
                 {.size = 6.5, .colour = kFaint, .align = Align::kMiddle, .level = Level::kTop});
  }
}

}  // namespace openwork::draw
