#include "draw/scatter_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "draw/ticks.h"

namespace openwork::draw {
namespace {

constexpr double kGap = 7, kLeft = 46, kBelow = 30, kTitle = 20;
constexpr int kBins = 30, kSquares = 56;
constexpr double kDotRadius = 0.75;

struct Frame {
  Rect area;
  double high = 1;
  Point at(double x, double y) const {
    return {area.x + area.width * place(x), area.bottom() - area.height * place(y)};
  }
  // A little room at both ends, so that points at 0 and at the largest value are whole.
  double place(double value) const { return 0.03 + 0.94 * value / high; }
};

double largest_value(const ScatterMatrix& matrix) {
  if (matrix.high > 0) return matrix.high;
  float high = 0;
  for (const ScatterBlock& block : matrix.blocks) {
    for (const auto& values : block.values) {
      for (const float value : values) high = std::max(high, value);
    }
  }
  return high > 0 ? high : 1;
}

// Dots that would fall onto one another are drawn once: most pairs are near zero, and a file need not repeat
// them.
void paint_dots(Canvas& canvas, const Frame& frame, const std::vector<float>& x, const std::vector<float>& y,
                const Colour& colour) {
  std::set<std::pair<int, int>> seen;
  std::vector<Point> dots;
  for (size_t n = 0; n < std::min(x.size(), y.size()); ++n) {
    const Point point = frame.at(x[n], y[n]);
    if (seen.insert({static_cast<int>(point.x * 4), static_cast<int>(point.y * 4)}).second)
      dots.push_back(point);
  }
  canvas.fill_dots(dots, kDotRadius, colour.with_alpha(0.8));
}

void paint_density(Canvas& canvas, const Frame& frame, const std::vector<float>& x,
                   const std::vector<float>& y) {
  std::vector<double> counts(static_cast<size_t>(kSquares * kSquares));
  for (size_t n = 0; n < std::min(x.size(), y.size()); ++n) {
    const int column = std::clamp(static_cast<int>(frame.place(x[n]) * kSquares), 0, kSquares - 1);
    const int row = std::clamp(static_cast<int>((1 - frame.place(y[n])) * kSquares), 0, kSquares - 1);
    counts[static_cast<size_t>(row * kSquares + column)] += 1;
  }
  const double most = std::log1p(*std::max_element(counts.begin(), counts.end()));
  PaletteImage image{kSquares, kSquares, {}, &attention_palette()};
  for (const double count : counts) {
    // One point is already visible: shades start a third of the way.
    image.pixels.push_back(count > 0 ? static_cast<uint8_t>(70 + 185 * std::log1p(count) / most)
                                     : uint8_t{0});
  }
  canvas.paint_image(frame.area, image);
}

void paint_histogram(Canvas& canvas, const Frame& frame, const std::vector<float>& values,
                     const Colour& colour) {
  std::vector<double> counts(kBins);
  for (const float value : values)
    counts[static_cast<size_t>(std::clamp(static_cast<int>(value / frame.high * kBins), 0, kBins - 1))] += 1;
  const double top = std::log10(std::max(10.0, *std::max_element(counts.begin(), counts.end()))) * 1.05;
  for (int n = 0; n < kBins; ++n) {
    const double count = counts[static_cast<size_t>(n)];
    if (count == 0) continue;
    const double left = frame.area.x + frame.area.width * frame.place(frame.high * n / kBins);
    const double right = frame.area.x + frame.area.width * frame.place(frame.high * (n + 1) / kBins);
    const double height =
        frame.area.height * (0.02 + 0.98 * std::log10(count) / top);  // one point is a low bar
    canvas.fill({left, frame.area.bottom() - height, right - left, height}, colour.with_alpha(0.85));
  }
  for (int power = 0; power <= static_cast<int>(top); ++power) {
    const double y = frame.area.bottom() - frame.area.height * (0.02 + 0.98 * power / top);
    canvas.line({frame.area.right() - 3, y}, {frame.area.right(), y}, {kFaint, 0.5});
    const std::string label = format_number(std::pow(10.0, power));
    const TextStyle style = {.size = 5.2, .colour = kFaint, .align = Align::kEnd, .level = Level::kMiddle};
    const TextSize size = canvas.measure(label, style);
    const Point place = {frame.area.right() - 4, std::min(y, frame.area.bottom() - size.height / 2 - 1)};
    // Bars of weights near 1 stand behind it.
    canvas.fill({place.x - size.width - 1, place.y - size.height / 2, size.width + 2, size.height},
                kWhite.with_alpha(0.8));
    canvas.write(place, label, style);
  }
}

void paint_correlation(Canvas& canvas, const Rect& area, double pearson, double spearman) {
  const double strength = std::isnan(pearson) ? 0 : std::abs(pearson);
  const Colour colour = palette_colour(attention_palette(), static_cast<int>(110 + 110 * strength));
  const Point centre = area.centre();
  canvas.write(
      {centre.x, centre.y - 4}, format_correlation(pearson, 2),
      {.size = 8.5 + 8 * strength, .colour = colour, .align = Align::kMiddle, .level = Level::kMiddle});
  canvas.write({centre.x, centre.y + 14}, "ρ " + format_correlation(spearman, 2),
               {.size = 7.5, .colour = kFaint, .align = Align::kMiddle, .level = Level::kMiddle});
}

void paint_side_names(Canvas& canvas, const ScatterBlock& block, const Frame& frame, size_t row,
                      size_t column) {
  const size_t last = block.names.size() - 1;
  const auto ticks = choose_ticks(0, frame.high, 3);
  if (column == 0) {
    canvas.write({frame.area.x - 34, frame.area.centre().y}, block.names[row],
                 {.size = 8, .align = Align::kMiddle, .level = Level::kMiddle, .turn = -90.0});
    for (const Tick& tick : ticks) {
      if (row == 0) break;  // the first row has counts, not weights
      const double y = frame.at(0, tick.value).y;
      canvas.line({frame.area.x - 2, y}, {frame.area.x, y}, {kFaint, 0.5});
      canvas.write({frame.area.x - 3, y}, tick.label,
                   {.size = 6, .colour = kFaint, .align = Align::kEnd, .level = Level::kMiddle});
    }
  }
  if (row != last) return;
  for (const Tick& tick : ticks) {
    const double x = frame.at(tick.value, 0).x;
    canvas.line({x, frame.area.bottom()}, {x, frame.area.bottom() + 2}, {kFaint, 0.5});
    // The labels at both ends stay inside their panel: the neighbour's are as close as the gap.
    const double share = (x - frame.area.x) / frame.area.width;
    const Align align = share < 0.1 ? Align::kStart : share > 0.9 ? Align::kEnd : Align::kMiddle;
    canvas.write({std::clamp(x, frame.area.x + 1, frame.area.right() - 1), frame.area.bottom() + 2},
                 tick.label, {.size = 6, .colour = kFaint, .align = align, .level = Level::kTop});
  }
  canvas.write({frame.area.centre().x, frame.area.bottom() + 11}, block.names[column],
               {.size = 8, .align = Align::kMiddle, .level = Level::kTop});
}

void paint_pair(Canvas& canvas, const ScatterBlock& block, const Frame& frame, size_t row, size_t column) {
  if (row == column) {
    paint_histogram(canvas, frame, block.values[row], block.colour);
  } else if (row < column) {
    paint_correlation(canvas, frame.area, block.pearson[row][column], block.spearman[row][column]);
  } else if (block.values[row].size() > kMostDots) {
    paint_density(canvas, frame, block.values[column], block.values[row]);
  } else {
    paint_dots(canvas, frame, block.values[column], block.values[row], block.colour);
  }
  canvas.frame(frame.area, {kHairline, 0.5});
  paint_side_names(canvas, block, frame, row, column);
}

}  // namespace

std::string format_correlation(double value, int decimals) {
  return std::isnan(value) ? "none" : fmt::format("{:+.{}f}", value, decimals);
}

Figure draw_scatter_matrix(const ScatterMatrix& matrix) {
  size_t most = 1;
  double tall = 0;
  for (const ScatterBlock& block : matrix.blocks) {
    most = std::max(most, block.names.size());
    tall += kTitle + static_cast<double>(block.names.size()) * (matrix.panel + kGap) + kBelow;
  }
  const double width = 30 + kLeft + static_cast<double>(most) * (matrix.panel + kGap);
  const double height = tall + measure_caption(matrix.caption, width);
  const auto kept = std::make_shared<const ScatterMatrix>(matrix);
  return {width, height, [kept, width, height](Canvas& canvas) {
            const Rect area = paint_caption(canvas, {0, 0, width, height}, kept->caption);
            const double high = largest_value(*kept), step = kept->panel + kGap;
            double y = area.y;
            for (const ScatterBlock& block : kept->blocks) {
              canvas.write({area.x, y}, block.title, {.size = 10, .level = Level::kTop, .bold = true});
              for (size_t n = 0; n < block.names.size() * block.names.size(); ++n) {
                const size_t row = n / block.names.size(), column = n % block.names.size();
                const Rect cell{area.x + kLeft + static_cast<double>(column) * step,
                                y + kTitle + static_cast<double>(row) * step, kept->panel, kept->panel};
                paint_pair(canvas, block, {cell, high}, row, column);
              }
              y += kTitle + static_cast<double>(block.names.size()) * step + kBelow;
            }
          }};
}

}  // namespace openwork::draw
