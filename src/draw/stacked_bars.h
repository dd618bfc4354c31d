// Bars cut into parts, one bar per place: how many heads of each class a layer has. Several groups (the dense
// and the sparse model) stand in panels above one another, on the same axes.
//   StackedBars bars;
//   bars.places = {"L0", "L1"}, bars.parts = {"sink", "local"};
//   bars.groups.push_back({.name = "dense", .heights = {{3, 5}, {4, 4}}});   // [place][part]
//   write_figure(draw_stacked_bars(bars), "classes.svg");
#pragma once
#include <string>
#include <vector>

#include "draw/figure.h"

namespace openwork::draw {

struct BarGroup {
  std::string name;
  std::vector<std::vector<double>> heights;  // [place][part], none negative
};

struct StackedBars {
  Caption caption;
  double width = 420, panel_height = 130;
  std::string x_name, y_name;
  std::vector<std::string> places, parts;
  std::vector<Colour> colours;  // of the parts; empty: category_colour
  std::vector<BarGroup> groups;
};

Figure draw_stacked_bars(const StackedBars& bars);

}  // namespace openwork::draw
