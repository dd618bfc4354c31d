// Lines over a common x axis, with interval bands: faithfulness curves of a dense and a sparse model, loss
// and kept edges over tokens. A second y axis on the right takes the lines that ask for it.
//   LineChart chart;
//   chart.caption.title = "Copy task";
//   chart.x_name = "heads kept", chart.y_name = "faithfulness";
//   chart.lines.push_back({.name = "dense", .x = k, .y = f, .low = l, .high = h, .colour = kDense});
//   chart.marks.push_back({.y = 0.9, .label = "90 %"});
//   write_figure(draw_line_chart(chart), "curves.svg");
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "draw/figure.h"

namespace openwork::draw {

struct Line {
  std::string name = {};                    // in the legend; empty: not there
  std::vector<double> x = {}, y = {};       // same length; a value that is not finite breaks the line
  std::vector<double> low = {}, high = {};  // a band around y; empty for none
  Colour colour = kSparse;
  std::vector<double> dashes = {};
  bool dots = false;      // a dot at every point
  bool stepped = false;   // holds each value until the next
  bool on_right = false;  // measured on the right axis
};

// A level or a place to look at: a dashed line across (y), upright (x), or a dot where both are given.
struct ChartMark {
  std::optional<double> x, y;
  std::string label;
  Colour colour = kFaint;
};

struct LineChart {
  Caption caption;
  double width = 360, height = 250;
  std::string x_name, y_name, right_name;
  bool x_logarithmic = false, y_logarithmic = false, right_logarithmic = false;
  std::optional<double> x_low, x_high, y_low, y_high, right_low, right_high;  // else from the data
  std::vector<Line> lines;
  std::vector<ChartMark> marks;
};

Figure draw_line_chart(const LineChart& chart);

}  // namespace openwork::draw
