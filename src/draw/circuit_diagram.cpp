#include "draw/circuit_diagram.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "draw/circuit_layout.h"

namespace openwork::draw {
namespace {

constexpr double kNameWidth = 40, kLeastWidth = 240;

// Up from one point to the next, leaving and arriving upright.
void paint_stretch(Canvas& canvas, Point from, Point to, const Stroke& stroke) {
  if (std::abs(from.x - to.x) < 1e-6) {
    canvas.line(from, to, stroke);
    return;
  }
  const double bend = 0.5 * (from.y - to.y);
  canvas.curve(from, {from.x, from.y - bend}, {to.x, to.y + bend}, to, stroke);
}

void paint_edge(Canvas& canvas, const CircuitEdge& edge, const std::vector<Point>& route, double largest) {
  const double share = largest > 0 ? std::abs(edge.weight) / largest : 0;
  const Colour colour = (edge.weight < 0 ? kNegative : kPositive).with_alpha(0.3 + 0.6 * share);
  const double width = 0.5 + 2.4 * share, head = 3.5 + 1.6 * width, half = 1.4 + 0.9 * width;
  const Point tip = {route.back().x, route.back().y + 0.8}, base = {tip.x, tip.y + head};
  for (size_t n = 0; n + 1 < route.size(); ++n)
    paint_stretch(canvas, route[n], n + 2 == route.size() ? base : route[n + 1], {colour, width});
  const Point corners[] = {tip, {base.x - half, base.y}, {base.x + half, base.y}};
  canvas.fill_polygon(corners, colour);
}

void paint_node(Canvas& canvas, const CircuitNode& node, const Rect& box,
                const std::vector<CircuitPort>& ports) {
  const int shade = static_cast<int>(20 + 120 * std::clamp(node.weight, 0.0, 1.0));
  canvas.fill_rounded(box.inset(-0.7, -0.7, -0.7, -0.7), 4.5, kPositive);
  canvas.fill_rounded(box, 4, palette_colour(attention_palette(), shade));
  const Colour ink = shade > 120 ? kWhite : kInk;
  const auto write = [&](double x, double y, const std::string& text, double size) {
    canvas.write({x, y}, text,
                 {.size = size, .colour = ink, .align = Align::kMiddle, .level = Level::kMiddle});
  };
  // Up to three lines: the name, what it does, its inputs.
  const double lines = 1 + (node.note.empty() ? 0 : 1) + (ports.empty() ? 0 : 1),
               step = box.height / (lines + 0.4);
  double y = box.y + 0.2 * step + step / 2;
  write(box.centre().x, y, node.name, kNameSize);
  if (!node.note.empty()) write(box.centre().x, y += step, node.note, kNoteSize);
  for (const CircuitPort& port : ports) write(port.x, box.bottom() - 4, port.label, kPortSize);
}

void paint_rows(Canvas& canvas, const CircuitDiagram& diagram, const CircuitLayout& layout, double left) {
  for (const auto& [row, y] : layout.rows) {
    if (row < 0 || static_cast<size_t>(row) >= diagram.row_names.size()) continue;
    canvas.write({0, y}, diagram.row_names[static_cast<size_t>(row)],
                 {.size = 7, .colour = kFaint, .level = Level::kMiddle});
    canvas.line({kNameWidth - 4, y}, {left + layout.width, y}, {kHairline.with_alpha(0.5), 0.4, {1, 3}});
  }
}

void paint_circuit(Canvas& canvas, const CircuitDiagram& diagram, const CircuitLayout& layout) {
  double largest = 0;
  for (const CircuitEdge& edge : diagram.edges) largest = std::max(largest, std::abs(edge.weight));
  std::vector<size_t> order(diagram.edges.size());  // the weakest first, so that the strongest lie on top
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::abs(diagram.edges[a].weight) < std::abs(diagram.edges[b].weight);
  });
  for (const size_t n : order) paint_edge(canvas, diagram.edges[n], layout.routes[n], largest);
  for (size_t n = 0; n < diagram.nodes.size(); ++n)
    paint_node(canvas, diagram.nodes[n], layout.boxes[n], layout.ports[n]);
}

}  // namespace

Figure draw_circuit_diagram(const CircuitDiagram& diagram) {
  const CircuitLayout layout = place_circuit(diagram);
  const double names = diagram.row_names.empty() ? 0 : kNameWidth;
  const double width = std::max({names + layout.width + 20, kLeastWidth, diagram.width});
  const double height = layout.height + 8 + measure_caption(diagram.caption, width);
  return {width, height, [=](Canvas& canvas) {
            const Rect area = paint_caption(canvas, {0, 0, width, height}, diagram.caption);
            const double left =
                names + (width - 20 - names - layout.width) / 2;  // in the middle of what is left
            canvas.moved(area.x, area.y + 4, [&] {
              paint_rows(canvas, diagram, layout, left);
              canvas.moved(left, 0, [&] { paint_circuit(canvas, diagram, layout); });
            });
          }};
}

}  // namespace openwork::draw
