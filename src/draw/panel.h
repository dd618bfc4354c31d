// A panel: a rectangle of the page with an x axis, a y axis and data between. It maps data to points and
// paints the frame; charts paint into it.
//   Panel panel(area, Axis::linear("heads kept", 0, 64), Axis::linear("faithfulness", 0, 1));
//   panel.paint_axes(canvas);
//   canvas.line(panel.at(0, 0.9), panel.at(64, 0.9), ...);
// Room for tick labels and axis names is taken from `area`; plot() is what is left.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "draw/canvas.h"
#include "draw/ticks.h"

namespace openwork::draw {

struct Axis {
  std::string name;
  double low = 0, high = 1;
  bool logarithmic = false;
  std::vector<Tick> ticks;

  static Axis linear(std::string name, double low, double high, int wanted = 5);
  static Axis logarithm(std::string name, double low, double high);  // 0 < low < high
  // One place per label, at 0.5, 1.5, ...: bars, layers, heads.
  static Axis places(std::string name, const std::vector<std::string>& labels);
  // Holds all of the values (those that are finite), with a little room; from 0 where `from_zero`.
  static Axis around(std::string name, const std::vector<double>& values, bool from_zero = false);

  double share(double value) const;  // 0 at low, 1 at high
};

class Panel {
 public:
  // `right` is a second y axis, drawn on the right side.
  Panel(const Rect& area, Axis x, Axis y, std::optional<Axis> right = {});

  const Rect& plot() const { return plot_; }
  Point at(double x, double y) const;
  Point at_right(double x, double y) const;  // y on the second axis

  // Frame, grid lines, ticks, labels and names. Tick labels that would touch are left out, the first and last
  // ones last of all.
  void paint_axes(Canvas& canvas) const;

 private:
  void paint_x_axis(Canvas& canvas) const;
  void paint_y_axis(Canvas& canvas, const Axis& axis, bool on_right) const;

  Rect area_, plot_;
  Axis x_, y_;
  std::optional<Axis> right_;
  bool turned_ = false;  // x labels stand upright where they are too many to lie
};

}  // namespace openwork::draw
