#include "draw/circuit_diagram.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace openwork::draw {
namespace {

constexpr double kNodeWidth = 46, kNodeHeight = 20, kNodeGap = 10, kRowGap = 34, kNameWidth = 46;

struct Placed {
  std::vector<Rect> boxes;     // by node
  std::map<int, double> rows;  // row -> y of its middle
  double width = 0, height = 0;
};

// Left edges of boxes that want these middles, in order, each a gap from the last: pushed right where they
// would touch, then back as a whole where they would leave the page.
std::vector<double> spread(const std::vector<double>& wanted, double from, double to) {
  std::vector<double> left;
  double free_from = from;
  for (const double middle : wanted) {
    left.push_back(std::max(free_from, middle - kNodeWidth / 2));
    free_from = left.back() + kNodeWidth + kNodeGap;
  }
  double limit = to;
  for (size_t n = left.size(); n-- > 0; limit = left[n] - kNodeGap)
    left[n] = std::min(left[n], limit - kNodeWidth);
  return left;
}

// Rows from below, those without nodes left out; a row's nodes near their columns, a lone one among wide rows
// too.
Placed place_nodes(const CircuitDiagram& diagram) {
  std::map<int, std::vector<size_t>> rows;
  double least = 0, most = 0;
  for (size_t n = 0; n < diagram.nodes.size(); ++n) {
    rows[diagram.nodes[n].row].push_back(n);
    least = n == 0 ? diagram.nodes[n].column : std::min(least, diagram.nodes[n].column);
    most = n == 0 ? diagram.nodes[n].column : std::max(most, diagram.nodes[n].column);
  }
  size_t widest = 1;
  for (auto& [row, members] : rows) {
    widest = std::max(widest, members.size());
    std::stable_sort(members.begin(), members.end(),
                     [&](size_t a, size_t b) { return diagram.nodes[a].column < diagram.nodes[b].column; });
  }
  Placed placed;
  placed.boxes.resize(diagram.nodes.size());
  const double names = diagram.row_names.empty() ? 0 : kNameWidth;
  placed.width = std::max(names + static_cast<double>(widest) * (kNodeWidth + kNodeGap),
                          diagram.width > 0 ? diagram.width - 20 : 240.0);
  placed.height = std::max(0.0, static_cast<double>(rows.size()) * (kNodeHeight + kRowGap) - kRowGap);
  double y = placed.height - kNodeHeight / 2;
  for (const auto& [row, members] : rows) {
    std::vector<double> wanted;
    for (const size_t n : members) {
      const double share = most > least ? (diagram.nodes[n].column - least) / (most - least) : 0.5;
      wanted.push_back(names + kNodeWidth / 2 + share * (placed.width - names - kNodeWidth));
    }
    const std::vector<double> left = spread(wanted, names, placed.width);
    for (size_t n = 0; n < members.size(); ++n)
      placed.boxes[members[n]] = {left[n], y - kNodeHeight / 2, kNodeWidth, kNodeHeight};
    placed.rows[row] = y;
    y -= kNodeHeight + kRowGap;
  }
  return placed;
}

void paint_edge(Canvas& canvas, const CircuitEdge& edge, const Rect& from, const Rect& to, double largest,
                double middle) {
  const double share = largest > 0 ? std::abs(edge.weight) / largest : 0;
  const Colour colour = (edge.weight < 0 ? kNegative : kPositive).with_alpha(0.25 + 0.6 * share);
  const Point start{from.centre().x, from.y}, end{to.centre().x, to.bottom()};
  const double rise = std::abs(start.y - end.y), bend = std::max(12.0, rise * 0.45);
  // An edge over several rows bows out, so that it does not run behind the nodes between.
  const double side = rise < 1.5 * (kNodeHeight + kRowGap)
                          ? 0
                          : (end.x + start.x > 2 * middle ? 1 : -1) * std::min(90.0, 0.35 * rise);
  canvas.curve(start, {start.x + side, start.y - bend}, {end.x + side, end.y + bend}, end,
               {colour, 0.4 + 3.4 * share});
  if (edge.label.empty()) return;
  const double t = 0.8, s = 1 - t;  // the point four fifths along the curve
  const double x = s * s * s * start.x + 3 * s * s * t * (start.x + side) + 3 * s * t * t * (end.x + side) +
                   t * t * t * end.x;
  const double y = s * s * s * start.y + 3 * s * s * t * (start.y - bend) + 3 * s * t * t * (end.y + bend) +
                   t * t * t * end.y;
  canvas.write({x + 2 + 1.7 * share, y}, edge.label,
               {.size = 6.5, .colour = colour.with_alpha(1), .level = Level::kMiddle});
}

void paint_node(Canvas& canvas, const CircuitNode& node, const Rect& box) {
  const double share = std::clamp(node.weight, 0.0, 1.0);
  const int shade = static_cast<int>(20 + 120 * share);
  canvas.fill_rounded(box.inset(-0.7, -0.7, -0.7, -0.7), 4.5, kPositive.with_alpha(0.9));
  canvas.fill_rounded(box, 4, palette_colour(attention_palette(), shade));
  const Colour ink = shade > 120 ? kWhite : kInk;
  const double middle = node.note.empty() ? box.centre().y : box.y + 7.5;
  canvas.write({box.centre().x, middle}, node.name,
               {.size = 8, .colour = ink, .align = Align::kMiddle, .level = Level::kMiddle});
  if (!node.note.empty())
    canvas.write({box.centre().x, box.bottom() - 5}, node.note,
                 {.size = 5, .colour = ink, .align = Align::kMiddle, .level = Level::kMiddle});
}

void paint_diagram(Canvas& canvas, const CircuitDiagram& diagram, const Placed& placed) {
  for (const auto& [row, y] : placed.rows) {
    if (row < 0 || static_cast<size_t>(row) >= diagram.row_names.size()) continue;
    canvas.write({0, y}, diagram.row_names[static_cast<size_t>(row)],
                 {.size = 7, .colour = kFaint, .level = Level::kMiddle});
    canvas.line({kNameWidth - 4, y}, {placed.width, y}, {kHairline.with_alpha(0.5), 0.4, {1, 3}});
  }
  double largest = 0;
  for (const CircuitEdge& edge : diagram.edges) largest = std::max(largest, std::abs(edge.weight));
  std::vector<CircuitEdge> edges = diagram.edges;  // the weakest first, so that the strongest lie on top
  std::stable_sort(edges.begin(), edges.end(),
                   [](const auto& a, const auto& b) { return std::abs(a.weight) < std::abs(b.weight); });
  for (const CircuitEdge& edge : edges) {
    paint_edge(canvas, edge, placed.boxes.at(static_cast<size_t>(edge.from)),
               placed.boxes.at(static_cast<size_t>(edge.to)), largest, placed.width / 2);
  }
  for (size_t n = 0; n < diagram.nodes.size(); ++n) paint_node(canvas, diagram.nodes[n], placed.boxes[n]);
}

}  // namespace

Figure draw_circuit_diagram(const CircuitDiagram& diagram) {
  const Placed placed = place_nodes(diagram);
  const double width = placed.width + 20,
               height = placed.height + 8 + measure_caption(diagram.caption, width);
  return {width, height, [diagram, placed, width, height](Canvas& canvas) {
            const Rect area = paint_caption(canvas, {0, 0, width, height}, diagram.caption);
            canvas.moved(area.x, area.y + 4, [&] { paint_diagram(canvas, diagram, placed); });
          }};
}

}  // namespace openwork::draw
