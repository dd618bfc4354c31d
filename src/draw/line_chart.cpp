#include "draw/line_chart.h"

#include <algorithm>
#include <cmath>

#include "draw/legend.h"
#include "draw/panel.h"

namespace openwork::draw {
namespace {

// An axis over the values; the ends that were given are kept.
Axis make_axis(const std::string& name, std::vector<double> values, bool logarithmic,
               std::optional<double> low, std::optional<double> high) {
  if (logarithmic) std::erase_if(values, [](double value) { return !(value > 0); });
  Axis axis = Axis::around(name, values);
  if (logarithmic) {
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    const double from = low.value_or(values.empty() ? 0.1 : *least / 1.15),
                 to = high.value_or(values.empty() ? 1 : *most * 1.15);
    return Axis::logarithm(name, from, std::max(to, from * 1.5));
  }
  if (!low && !high) return axis;
  return Axis::linear(name, low.value_or(axis.low), high.value_or(axis.high));
}

void append(std::vector<double>& to, const std::vector<double>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

Panel make_panel(const LineChart& chart, const Rect& area) {
  std::vector<double> x, left, right;
  bool has_right = false;
  for (const Line& line : chart.lines) {
    append(x, line.x);
    std::vector<double>& y = line.on_right ? right : left;
    append(y, line.y), append(y, line.low), append(y, line.high);
    has_right |= line.on_right;
  }
  for (const ChartMark& mark : chart.marks) {
    if (mark.x) x.push_back(*mark.x);
    if (mark.y) left.push_back(*mark.y);
  }
  std::optional<Axis> right_axis;
  if (has_right)
    right_axis =
        make_axis(chart.right_name, right, chart.right_logarithmic, chart.right_low, chart.right_high);
  return Panel(area, make_axis(chart.x_name, x, chart.x_logarithmic, chart.x_low, chart.x_high),
               make_axis(chart.y_name, left, chart.y_logarithmic, chart.y_low, chart.y_high), right_axis);
}

Point place(const Panel& panel, const Line& line, double x, double y) {
  return line.on_right ? panel.at_right(x, y) : panel.at(x, y);
}

void paint_band(Canvas& canvas, const Panel& panel, const Line& line) {
  std::vector<Point> outline;
  const size_t count = std::min({line.x.size(), line.low.size(), line.high.size()});
  const auto add = [&](size_t n, const std::vector<double>& y) {
    if (!std::isfinite(y[n])) return;
    if (line.stepped && !outline.empty())
      outline.push_back({place(panel, line, line.x[n], y[n]).x, outline.back().y});
    outline.push_back(place(panel, line, line.x[n], y[n]));
  };
  for (size_t n = 0; n < count; ++n) add(n, line.high);
  for (size_t n = count; n-- > 0;) {
    if (std::isfinite(line.low[n])) outline.push_back(place(panel, line, line.x[n], line.low[n]));
  }
  canvas.fill_polygon(outline, line.colour.with_alpha(0.18));
}

void paint_curve(Canvas& canvas, const Panel& panel, const Line& line) {
  const Stroke stroke{line.colour, 1.5, line.dashes};
  std::vector<Point> points;
  const auto flush = [&] {
    canvas.polyline(points, stroke);
    points.clear();
  };
  for (size_t n = 0; n < std::min(line.x.size(), line.y.size()); ++n) {
    if (!std::isfinite(line.x[n]) || !std::isfinite(line.y[n])) {
      flush();
      continue;
    }
    const Point point = place(panel, line, line.x[n], line.y[n]);
    if (line.stepped && !points.empty()) points.push_back({point.x, points.back().y});
    points.push_back(point);
    if (line.dots) canvas.fill_circle(point, 2, line.colour);
  }
  flush();
}

// How many points of the curves lie where a label `width` wide would stand.
size_t count_under(const std::vector<Line>& lines, const Panel& panel, Point start, double width) {
  size_t count = 0;
  for (const Line& line : lines) {
    for (size_t n = 0; n < line.x.size(); ++n) {
      const Point point = panel.at(line.x[n], line.y[n]);
      count += point.x > start.x && point.x < start.x + width && std::abs(point.y - start.y) < 10;
    }
  }
  return count;
}

void paint_mark(Canvas& canvas, const Panel& panel, const ChartMark& mark, const std::vector<Line>& lines) {
  const Rect& plot = panel.plot();
  const Stroke dashed{mark.colour, 0.8, {3, 2.5}};
  const Point at = panel.at(mark.x.value_or(0), mark.y.value_or(0));
  bool left = at.x > plot.x + 0.7 * plot.width;  // the label goes to the left of the mark
  const auto write = [&](Point where) {
    canvas.write(where, mark.label,
                 {.size = 7, .colour = mark.colour, .align = left ? Align::kEnd : Align::kStart});
  };
  if (mark.x && mark.y) {
    canvas.fill_circle(at, 3, mark.colour);
    write({at.x + (left ? -5 : 5), at.y - 3});
  } else if (mark.y) {
    canvas.line({plot.x, at.y}, {plot.right(), at.y}, dashed);
    const double width = plot.width / 4;
    left = count_under(lines, panel, {plot.right() - width, at.y}, width) <
           count_under(lines, panel, {plot.x, at.y}, width);
    write({left ? plot.right() - 3 : plot.x + 3, at.y - 2});
  } else if (mark.x) {
    canvas.line({at.x, plot.y}, {at.x, plot.bottom()}, dashed);
    write({at.x + (left ? -3 : 3), plot.y + 9});
  }
}

std::vector<LegendEntry> make_legend(const LineChart& chart) {
  std::vector<LegendEntry> entries;
  for (const Line& line : chart.lines) {
    if (!line.name.empty()) entries.push_back({line.name, line.colour, Swatch::kLine, line.dashes});
  }
  return entries;
}

}  // namespace

Figure draw_line_chart(const LineChart& chart) {
  return {chart.width, chart.height, [chart](Canvas& canvas) {
            Rect area = paint_caption(canvas, {0, 0, chart.width, chart.height}, chart.caption);
            const double legend = paint_legend(canvas, area, make_legend(chart));
            const Panel panel = make_panel(chart, area.inset(0, legend > 0 ? legend + 4 : 0, 0, 0));
            panel.paint_axes(canvas);
            canvas.clipped(panel.plot().inset(-1, -1, -1, -1), [&] {
              for (const Line& line : chart.lines) paint_band(canvas, panel, line);
              for (const Line& line : chart.lines) paint_curve(canvas, panel, line);
            });
            for (const ChartMark& mark : chart.marks) paint_mark(canvas, panel, mark, chart.lines);
          }};
}

}  // namespace openwork::draw
