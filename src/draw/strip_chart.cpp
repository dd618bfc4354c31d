#include "draw/strip_chart.h"

#include <algorithm>
#include <cmath>

#include "base/median.h"
#include "draw/legend.h"
#include "draw/panel.h"

namespace openwork::draw {
namespace {

template <typename Series>
std::vector<LegendEntry> make_legend(const std::vector<Series>& series, Swatch swatch) {
  std::vector<LegendEntry> entries;
  for (const Series& one : series) {
    if (!one.name.empty()) entries.push_back({one.name, one.colour, swatch});
  }
  return entries;
}

Axis make_value_axis(const StripChart& chart) {
  std::vector<double> values;
  for (const StripSeries& series : chart.series) {
    for (const auto& dots : series.values) values.insert(values.end(), dots.begin(), dots.end());
  }
  if (!chart.y_logarithmic) return Axis::around(chart.y_name, values, true);
  std::erase_if(values, [](double value) { return !(value > 0) || !std::isfinite(value); });
  if (values.empty()) return Axis::logarithm(chart.y_name, 0.1, 1);
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return Axis::logarithm(chart.y_name, *least / 2, std::max(*most * 1.3, *least));
}

// The dots of one place and series, spread over its share of the place's width.
void paint_dots(Canvas& canvas, const Panel& panel, const Axis& y, const std::vector<double>& values,
                double from, double to, const StripChart& chart, const Colour& colour) {
  std::vector<Point> points;
  for (size_t n = 0; n < values.size(); ++n) {
    if (!std::isfinite(values[n])) continue;
    const double share = (static_cast<double>(n) + 0.5) / static_cast<double>(values.size());
    points.push_back(panel.at(from + (to - from) * share, std::max(values[n], y.low)));
  }
  canvas.fill_dots(points, points.size() > 20 ? 1.1 : 1.6, colour.with_alpha(0.75));
  if (points.empty() || !chart.medians) return;
  const double middle = std::max(median(values), y.low);
  canvas.line(panel.at(from, middle), panel.at(to, middle), {colour, 1.2});
}

double tallest(const std::vector<double>& values, const std::vector<double>& high, double most) {
  for (const auto* list : {&values, &high}) {
    for (const double value : *list) most = std::isfinite(value) ? std::max(most, value) : most;
  }
  return most;
}

void paint_bar(Canvas& canvas, const Panel& panel, const BarSeries& series, size_t place, double from,
               double to) {
  const double value = series.values[place];
  if (!std::isfinite(value)) return;
  const Point base = panel.at(from, 0), top = panel.at(to, value);
  canvas.fill({base.x, std::min(top.y, base.y), top.x - base.x, std::abs(base.y - top.y)}, series.colour);
  if (place >= series.low.size() || place >= series.high.size()) return;
  if (!std::isfinite(series.low[place]) || !std::isfinite(series.high[place])) return;
  const double middle = (from + to) / 2;
  canvas.line(panel.at(middle, series.low[place]), panel.at(middle, series.high[place]), {kInk, 0.9});
}

}  // namespace

Figure draw_strip_chart(const StripChart& chart) {
  return {chart.width, chart.height, [chart](Canvas& canvas) {
            const Rect area = paint_caption(canvas, {0, 0, chart.width, chart.height}, chart.caption);
            const double legend = paint_legend(canvas, area, make_legend(chart.series, Swatch::kDot));
            const Axis y = make_value_axis(chart);
            const Panel panel(area.inset(0, legend + 4, 0, 0), Axis::places(chart.x_name, chart.places), y);
            panel.paint_axes(canvas);
            const double share = 0.9 / static_cast<double>(std::max<size_t>(chart.series.size(), 1));
            for (size_t s = 0; s < chart.series.size(); ++s) {
              for (size_t place = 0; place < chart.series[s].values.size(); ++place) {
                const double from = static_cast<double>(place) + 0.05 + share * static_cast<double>(s);
                paint_dots(canvas, panel, y, chart.series[s].values[place], from + 0.04 * share,
                           from + 0.96 * share, chart, chart.series[s].colour);
              }
            }
          }};
}

Figure draw_bar_chart(const BarChart& chart) {
  return {chart.width, chart.height, [chart](Canvas& canvas) {
            const Rect area = paint_caption(canvas, {0, 0, chart.width, chart.height}, chart.caption);
            const double legend = paint_legend(canvas, area, make_legend(chart.series, Swatch::kBlock));
            double most = 0, least = 0;
            for (const BarSeries& series : chart.series) {
              most = tallest(series.values, series.high, most);
              for (const auto* list : {&series.values, &series.low}) {
                for (const double value : *list)
                  least = std::isfinite(value) ? std::min(least, value) : least;
              }
            }
            const Panel panel(area.inset(0, legend + 4, 0, 0), Axis::places(chart.x_name, chart.places),
                              Axis::around(chart.y_name, {least, most > 0 || least < 0 ? most : 1}, true));
            panel.paint_axes(canvas);
            const double share = 0.8 / static_cast<double>(std::max<size_t>(chart.series.size(), 1));
            for (size_t s = 0; s < chart.series.size(); ++s) {
              for (size_t place = 0; place < chart.series[s].values.size(); ++place) {
                const double from = static_cast<double>(place) + 0.1 + share * static_cast<double>(s);
                paint_bar(canvas, panel, chart.series[s], place, from, from + share);
              }
            }
          }};
}

}  // namespace openwork::draw
