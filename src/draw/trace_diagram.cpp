#include "draw/trace_diagram.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "draw/legend.h"
#include "draw/trace_layout.h"

namespace openwork::draw {
namespace {

constexpr double kTitle = 15, kPositions = 10, kBetweenPanels = 18;
constexpr double kWidestPage = 900;  // panels stand side by side up to here

struct PaintedPanel {
  TracePanel panel;
  TraceLayout layout;
  double caption_height = 0;
};

TextStyle caption_style(double width) {
  return {.size = 8, .level = Level::kTop, .width = width};
}

void paint_rows(Canvas& canvas, const TracePanel& panel, const TraceLayout& layout) {
  for (size_t n = 0; n < panel.rows.size(); ++n) {
    const double y = layout.row_middles[n];
    canvas.write({0, y}, panel.rows[n], {.size = 6.5, .colour = kFaint, .level = Level::kMiddle});
    if (n > 0) canvas.line({48, y}, {layout.width, y}, {kHairline.with_alpha(0.45), 0.4, {1, 3}});
  }
}

void paint_arrow(Canvas& canvas, const TraceCurve& curve, const Colour& colour) {
  const Point before = curve.at(0.94);
  const double dx = curve.to.x - before.x, dy = curve.to.y - before.y,
               length = std::max(1e-6, std::hypot(dx, dy));
  const double ux = dx / length, uy = dy / length, half = 1.4 + curve.width * 0.62,
               reach = 3.5 + curve.width * 0.7;
  const Point tip{curve.to.x + ux, curve.to.y + uy}, back{tip.x - ux * reach, tip.y - uy * reach};
  const Point corners[] = {
      tip, {back.x - uy * half, back.y + ux * half}, {back.x + uy * half, back.y - ux * half}};
  canvas.fill_polygon(corners, colour);
}

void paint_moves(Canvas& canvas, const TracePanel& panel, const TraceLayout& layout) {
  std::vector<size_t> order(panel.moves.size());  // the weakest first, so that the strongest lie on top
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return layout.curves[a].width < layout.curves[b].width; });
  for (const size_t n : order) {
    const TraceCurve& curve = layout.curves[n];
    const Colour own = panel.moves[n].weight < 0 ? kNegative : kPositive;
    const Colour colour = own.with_alpha(curve.between_tokens ? 0.72 : 0.38);
    canvas.curve(curve.from, curve.bend1, curve.bend2, curve.to, {colour, curve.width});
    paint_arrow(canvas, curve, own.with_alpha(curve.between_tokens ? 0.95 : 0.6));
  }
}

void paint_labels(Canvas& canvas, const TracePanel& panel, const TraceLayout& layout) {
  for (const TraceLabel& label : layout.labels) {
    const TraceMove& move = panel.moves[label.move];
    const Colour colour = move.weight < 0 ? kNegative : kPositive;
    canvas.fill_rounded(label.area.inset(-0.4, -0.4, -0.4, -0.4), 2.4, colour.with_alpha(0.55));
    canvas.fill_rounded(label.area, 2, kWhite);
    double y = label.area.y + 1.5 + kTraceLabelSize * kTraceLine / 2;
    for (const std::string& head : move.heads) {
      canvas.write(
          {label.area.centre().x, y}, head,
          {.size = kTraceLabelSize, .colour = colour, .align = Align::kMiddle, .level = Level::kMiddle});
      y += kTraceLabelSize * kTraceLine;
    }
  }
}

void paint_text(Canvas& canvas, const TraceBox& box, const Rect& area, double size, const Colour& ink,
                bool turned) {
  TextStyle style{.size = size, .colour = ink, .align = Align::kMiddle, .level = Level::kMiddle};
  const double line = size * kTraceLine;
  double y = area.centre().y - line * (static_cast<double>(box.lines.size()) - 1) / 2;
  if (turned) style.turn = -90;
  for (const std::string& text : box.lines) {
    canvas.write({area.centre().x, y}, text, style);
    y += line;
  }
}

void paint_box(Canvas& canvas, const TracePanel& panel, const TraceBox& box, const Rect& area, double size,
               const TraceScale& scale, bool turned) {
  const bool token = box.row == 0, answer = box.row + 1 == static_cast<int>(panel.rows.size());
  const bool watched = token && (box.column == panel.key || box.column == panel.query);
  const double share = scale.influence > 0 ? std::clamp(box.influence / scale.influence, 0.0, 1.0) : 0;
  const int shade = static_cast<int>(6 + 100 * share);
  const Colour own = box.lowers ? kNegative : kPositive;
  const Colour rim = watched ? kMark : answer ? kInk : token ? kHairline : own.with_alpha(0.75);
  const double edge = watched || answer ? 1.1 : 0.6;
  canvas.fill_rounded(area.inset(-edge, -edge, -edge, -edge), 3.2, answer || watched ? rim : kWhite);
  canvas.fill_rounded(area.inset(-edge, -edge, -edge, -edge), 3.2, rim);
  canvas.fill_rounded(area, 2.6, answer ? kWhite : palette_colour(attention_palette(), shade));
  paint_text(canvas, box, area, size, kInk, token && turned);
}

void paint_positions(Canvas& canvas, const TracePanel& panel, const TraceLayout& layout) {
  double free_from = -1;
  for (size_t n = 0; n < panel.tokens.size(); ++n) {
    const std::string number = fmt::format("{}", n);
    const double x = layout.column_middles[n], half = measure_text(number, {.size = 6}).width / 2 + 1.5;
    if (x - half < free_from) continue;
    free_from = x + half;
    canvas.write({x, layout.height + 3}, number,
                 {.size = 6, .colour = kFaint, .align = Align::kMiddle, .level = Level::kTop});
  }
}

void paint_panel(Canvas& canvas, const PaintedPanel& painted, const TraceScale& scale) {
  const auto& panel = painted.panel;
  const auto& layout = painted.layout;
  canvas.write({0, 0}, panel.title, {.size = 9.5, .level = Level::kTop, .bold = true});
  canvas.write({0, kTitle}, panel.caption, caption_style(layout.width));
  canvas.moved(0, kTitle + painted.caption_height, [&] {
    paint_rows(canvas, panel, layout);
    paint_moves(canvas, panel, layout);
    for (size_t n = 0; n < panel.boxes.size(); ++n)
      paint_box(canvas, panel, panel.boxes[n], layout.boxes[n], layout.text_sizes[n], scale, layout.turned);
    paint_labels(canvas, panel, layout);
    paint_positions(canvas, panel, layout);
  });
}

Figure make_panel(const TracePanel& panel, const TraceLayout& layout, const TraceScale& scale) {
  PaintedPanel painted{panel, layout, 4};
  if (!panel.caption.empty())
    painted.caption_height += measure_text(panel.caption, caption_style(layout.width)).height + 3;
  const double height = kTitle + painted.caption_height + layout.height + kPositions;
  return {layout.width + kBetweenPanels, height + kBetweenPanels,
          [painted, scale](Canvas& canvas) { paint_panel(canvas, painted, scale); }};
}

std::vector<LegendEntry> make_legend(const TraceDiagram& diagram, const TraceScale& scale) {
  std::vector<LegendEntry> entries = {{"raises", kPositive, Swatch::kLine},
                                      {"lowers", kNegative, Swatch::kLine}};
  const auto framed = [](const TracePanel& panel) { return panel.key >= 0 || panel.query >= 0; };
  if (std::any_of(diagram.panels.begin(), diagram.panels.end(), framed))
    entries.push_back({"key and query of the line above the panel", kMark, Swatch::kFrame});
  entries.push_back({fmt::format("darkest box: influence {:.2f}; widest link between tokens: {:.2f}",
                                 scale.influence, scale.weight),
                     palette_colour(attention_palette(), 106)});
  return entries;
}

}  // namespace

Figure draw_trace_diagram(const TraceDiagram& diagram) {
  const TraceScale scale = measure_trace(diagram.panels);
  const std::vector<TraceLayout> layouts = lay_out_traces(diagram.panels, scale);
  std::vector<Figure> figures;
  double across = 0;
  for (size_t n = 0; n < diagram.panels.size(); ++n) {
    figures.push_back(make_panel(diagram.panels[n], layouts[n], scale));
    across += figures.back().width;
  }
  if (figures.empty()) return arrange_figures({}, 1, diagram.caption);
  const int columns = diagram.columns > 0     ? diagram.columns
                      : across <= kWidestPage ? static_cast<int>(figures.size())
                                              : 1;
  const std::vector<LegendEntry> entries = make_legend(diagram, scale);
  const Figure panels = arrange_figures(std::move(figures), columns);
  const double width = panels.width - 20;
  const Figure legend{width, measure_legend(width, entries) + 2, [entries, width](Canvas& canvas) {
                        paint_legend(canvas, {10, 0, width, 20}, entries);
                      }};
  return arrange_figures({panels, legend}, 1, diagram.caption);
}

}  // namespace openwork::draw
