// Keys to a figure: what each colour is, and what a shade is worth.
#pragma once
#include <string>
#include <vector>

#include "draw/canvas.h"
#include "draw/ticks.h"

namespace openwork::draw {

enum class Swatch { kLine, kBlock, kDot, kFrame };

struct LegendEntry {
  std::string label;
  Colour colour;
  Swatch swatch = Swatch::kBlock;
  std::vector<double> dashes = {};  // of a line
};

// From the area's top left corner, in rows broken at its width, as labels wider than it are; returns the height taken.
double paint_legend(Canvas& canvas, const Rect& area, const std::vector<LegendEntry>& entries);
double measure_legend(double width, const std::vector<LegendEntry>& entries);

// Ticks of a colour bar. Where values above the scale's end were drawn in its last colour, `overflow` puts the
// last tick there, with a sign.
std::vector<Tick> choose_bar_ticks(const ColourScale& scale, bool overflow);

// The shades from 0 to scale.high with ticks below, `name` above; fills the area, best about 120 x 30 points.
void paint_colour_bar(Canvas& canvas, const Rect& area, const ColourScale& scale, const std::string& name,
                      bool overflow = false);

}  // namespace openwork::draw
