// What changes from one model to its twin: for each quantity a small panel with one thin line per item
// (prompt or head) from its dense value to its sparse one, and the two means as thick dots; the test's result
// below.
//   PairedChange change;
//   change.left = "dense", change.right = "sparse";
//   change.quantities.push_back({.name = "peak", .before = {...}, .after = {...}, .note = "p = 0.0001"});
#pragma once
#include <string>
#include <vector>

#include "draw/figure.h"

namespace openwork::draw {

struct PairedQuantity {
  std::string name;
  std::vector<double> before, after;  // same length, one entry per item
  std::string note;                   // under the panel: the test
  bool logarithmic = false;
};

struct PairedChange {
  Caption caption;
  std::string left = "dense", right = "sparse";
  int columns = 4;
  double panel_width = 130, panel_height = 170;
  std::vector<PairedQuantity> quantities;
};

Figure draw_paired_change(const PairedChange& change);

}  // namespace openwork::draw
