// One dot per head over places (layers): density by head, effect by head. Dots of one place lie side by side,
// so that equal values can be told apart; the median of each place and series is a short line. A bar per
// place with its interval is draw_bar_chart.
//   StripChart chart;
//   chart.places = {"L0", "L1"};
//   chart.series.push_back({.name = "sparse", .values = {{0.01, 0.2}, {0.003, 0}}, .colour = kSparse});
#pragma once
#include <string>
#include <vector>

#include "draw/figure.h"

namespace openwork::draw {

struct StripSeries {
  std::string name;
  std::vector<std::vector<double>> values;  // [place][dot]
  Colour colour = kSparse;
};

struct StripChart {
  Caption caption;
  double width = 420, height = 220;
  std::string x_name, y_name;
  bool y_logarithmic = false;  // values of 0 or below then lie on the axis, at its lower end
  bool medians = true;
  std::vector<std::string> places;
  std::vector<StripSeries> series;
};

Figure draw_strip_chart(const StripChart& chart);

// One bar per place and series, from 0, with an interval where given: 11 numbers of a suite, dense beside
// sparse.
struct BarSeries {
  std::string name;
  std::vector<double> values;               // [place]; not finite: no bar
  std::vector<double> low = {}, high = {};  // the interval; empty for none
  Colour colour = kSparse;
};

struct BarChart {
  Caption caption;
  double width = 420, height = 220;
  std::string x_name, y_name;
  std::vector<std::string> places;
  std::vector<BarSeries> series;
};

Figure draw_bar_chart(const BarChart& chart);

}  // namespace openwork::draw
