// Where everything of a traced prompt stands (draw/trace_diagram.h): boxes on a grid of tokens and rows,
// curves between them, and labels on those curves that touch neither a box nor each other. Columns with boxes
// above the token are as wide as those; the others only as wide as the token, so that 50 tokens fit on a
// page.
#pragma once
#include <string>
#include <vector>

#include "draw/trace_diagram.h"

namespace openwork::draw {

// Sizes that all panels share.
struct TraceScale {
  double influence = 0;  // the largest of any box, answers aside
  double weight = 0;     // the largest of any move between tokens; moves within one are cut at it
};

struct TraceCurve {
  Point from, bend1, bend2, to;
  double width = 0;
  bool between_tokens = false;

  Point at(double t) const;  // 0 .. 1 along it
};

struct TraceLabel {
  Rect area;
  size_t move = 0;
};

struct TraceLayout {
  double width = 0, height = 0;
  std::vector<Rect> boxes;         // by box of the panel
  std::vector<double> text_sizes;  // likewise
  std::vector<TraceCurve> curves;  // by move
  std::vector<TraceLabel> labels;
  std::vector<double> row_middles, column_middles;
  bool turned = false;  // tokens stand upright: there are too many to lie
};

inline constexpr double kTraceLine = 1.28;  // height of a line of text, in text sizes
inline constexpr double kTraceLabelSize = 6;

TraceScale measure_trace(const std::vector<TracePanel>& panels);

// Panels of the same tokens and rows stand on the same grid; the others each on their own.
std::vector<TraceLayout> lay_out_traces(const std::vector<TracePanel>& panels, const TraceScale& scale);

}  // namespace openwork::draw
