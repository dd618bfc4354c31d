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

// Calls place(entry, x, y, room) for each entry where it stands, with the room of its label; returns the height of all
// rows. A label wider than them all is broken into lines.
template <typename Place>
double lay_rows(double width, const std::vector<LegendEntry>& entries, const Place& place) {
  double x = 0, y = 0, row = kRow;
  const double most = std::max(1.0, width - kSwatch - kGap);
  for (const LegendEntry& entry : entries) {
    const double label = measure_text(entry.label, {.size = kSize}).width, room = std::min(label, most);
    if (x > 0 && x + kSwatch + kGap + room > width) x = 0, y += row, row = kRow;
    if (label > most)
      row = std::max(row, measure_text(entry.label, {.size = kSize, .width = most}).height + 3);
    place(entry, x, y, label > most ? most : 0);
    x += kSwatch + kGap + room + kBetween;
  }
  return entries.empty() ? 0 : y + row;
}

}  // namespace

double paint_legend(Canvas& canvas, const Rect& area, const std::vector<LegendEntry>& entries) {
  return lay_rows(area.width, entries, [&](const LegendEntry& entry, double x, double y, double room) {
    paint_swatch(canvas, {area.x + x, area.y + y, kSwatch, kRow}, entry);
    const bool broken = room > 0;
    canvas.write({area.x + x + kSwatch + kGap, area.y + y + (broken ? 1.5 : kRow / 2)}, entry.label,
                 {.size = kSize, .level = broken ? Level::kTop : Level::kMiddle, .width = room});
  });
}

double measure_legend(double width, const std::vector<LegendEntry>& entries) {
  return lay_rows(width, entries, [](const LegendEntry&, double, double, double) {});
}

std::vector<Tick> choose_bar_ticks(const ColourScale& scale, bool overflow) {
  std::vector<Tick> ticks = choose_ticks(0, scale.high, 4);
  const double room = overflow ? 1e-9 : 0.12;  // a last one so near the end stands for it
  if (scale.high - ticks.back().value > room * scale.high)
    ticks.push_back({scale.high, format_number(scale.high)});
  if (overflow) ticks.back().label = "≥ " + ticks.back().label;
  return ticks;
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
  const std::vector<Tick> ticks = choose_bar_ticks(scale, overflow);
  double free_to = 1e9;  // the end's label comes first
  for (auto tick = ticks.rbegin(); tick != ticks.rend(); ++tick) {
    const double x = bar.x + bar.width * scale.index_of(tick->value) / 255.0;
    const double half = canvas.measure(tick->label, {.size = 6.5}).width / 2 + 1;
    canvas.line({x, bar.bottom()}, {x, bar.bottom() + 2}, {kFaint, 0.5});
    if (x + half > free_to) continue;
    free_to = x - half;
    canvas.write({x, bar.bottom() + 2}, tick->label,
                 {.size = 6.5, .colour = kFaint, .align = Align::kMiddle, .level = Level::kTop});
  }
}

}  // namespace openwork::draw
