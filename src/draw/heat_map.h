// A matrix as shaded cells with names on its sides: effects of heads (layers x heads), shares by layer.
// One pixel per cell inside a vector frame. For attention patterns of whole models see draw/head_grid.h.
//   HeatMap map;
//   map.rows = {"L0", "L1"}, map.columns = {"H0", "H1"}, map.values = {{0.1, 0}, {0.4, 1}};
//   write_figure(draw_heat_map(map), "effects.png");
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "draw/figure.h"

namespace openwork::draw {

struct HeatMap {
  Caption caption;
  std::vector<std::string> rows, columns;   // names; empty: none
  std::vector<std::vector<double>> values;  // [row][column], all rows of one length
  std::string row_title, column_title, value_name;
  // Values run from 0 to this (else to the largest size seen). Where some are negative they are shaded by
  // size in orange, the positive ones in blue, on the same scale.
  std::optional<double> high;
  Shade shade = Shade::kLinear;
  bool write_values = false;  // the number in each cell
  double cell = 0;            // points a side; 0: what fits well
};

Figure draw_heat_map(const HeatMap& map);

}  // namespace openwork::draw
