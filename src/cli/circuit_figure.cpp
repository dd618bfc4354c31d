#include "cli/circuit_figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "draw/circuit_diagram.h"
#include "draw/line_chart.h"

namespace openwork {
namespace {

constexpr size_t kDrawnHeads = 60;

const draw::Colour kCurveColours[] = {draw::kDense, draw::kSparse};

std::string parts_name(CircuitLevel level) {
  return level == CircuitLevel::kHead            ? "heads"
         : level == CircuitLevel::kAttentionEdge ? "attention edges"
                                                 : "graph edges";
}

draw::Figure draw_curves(const std::vector<CircuitPicture>& models, const CircuitSettings& settings,
                         const std::string& task, const std::string& protocol) {
  draw::LineChart chart;
  chart.caption.title = fmt::format("Faithfulness on {}", task);
  chart.caption.note = protocol;
  chart.width = 420, chart.height = 270;
  chart.x_name = parts_name(settings.level) + " kept";
  chart.y_name = "faithfulness";
  chart.x_logarithmic = settings.level != CircuitLevel::kHead;
  chart.marks.push_back(
      {.x = {}, .y = settings.threshold, .label = fmt::format("{:.0f} %", 100 * settings.threshold)});
  for (size_t n = 0; n < models.size(); ++n) {
    const CircuitCurve& curve = models[n].circuit.curve;
    draw::Line line{.name = fmt::format("{}: {} of {}", models[n].name, curve.at_threshold,
                                        models[n].circuit.candidates)};
    line.colour = kCurveColours[n % 2];
    if (n >= 2) line.dashes = {3, 2};
    for (const CurvePoint& point : curve.points) {
      if (chart.x_logarithmic && point.count == 0) continue;
      line.x.push_back(static_cast<double>(point.count)), line.y.push_back(point.faithfulness);
      line.low.push_back(point.interval.low), line.high.push_back(point.interval.high);
    }
    chart.lines.push_back(std::move(line));
  }
  return draw::draw_line_chart(chart);
}

// Heads by layer, input below, logits above; a head's fill is its share of the largest score.
draw::Figure draw_diagram(const CircuitPicture& model, const CircuitSettings& settings) {
  draw::CircuitDiagram diagram;
  const size_t count = std::min(model.circuit.roles.size(), kDrawnHeads);
  diagram.caption.title = model.name;
  diagram.caption.subtitle = fmt::format("{} heads at {:.0f} % of {}", model.circuit.heads_at_threshold,
                                         100 * settings.threshold, "the metric");
  if (model.circuit.edges_at_threshold)
    diagram.caption.subtitle +=
        fmt::format(", {} {}", *model.circuit.edges_at_threshold, parts_name(settings.level));
  if (count < model.circuit.roles.size())
    diagram.caption.subtitle += fmt::format("; the first {} shown", count);
  if (!model.edges.empty())
    diagram.caption.note =
        "Edges: attribution patching, the strongest of those between what is shown; blue helps, orange "
        "hurts.";
  std::map<std::string, int> index;
  int top = 0;
  const auto add = [&](const std::string& name, int row, double column, const std::string& role) {
    index[name] = static_cast<int>(diagram.nodes.size());
    diagram.nodes.push_back(
        {.name = name, .row = row, .column = column, .weight = 1, .note = role == "other" ? "" : role});
    top = std::max(top, row);
  };
  for (size_t n = 0; n < count; ++n) {
    const HeadRole& role = model.circuit.roles[n];
    add(to_string(role.head), role.head.layer + 1, role.head.head, role.role);
  }
  for (const DrawnEdge& edge : model.edges) {
    for (const std::string& name : {edge.from, edge.to}) {
      if (index.contains(name)) continue;
      if (name == "input") add(name, 0, 0, "");
      if (name.starts_with("m")) add(name, std::stoi(name.substr(1)) + 1, 1e3, "");
    }
  }
  if (!model.edges.empty()) add("logits", top + 1, 0, "");
  for (const DrawnEdge& edge : model.edges) {
    if (!index.contains(edge.from) || !index.contains(edge.to)) continue;
    diagram.edges.push_back(
        {.from = index[edge.from], .to = index[edge.to], .weight = edge.score, .label = edge.input});
  }
  return draw::draw_circuit_diagram(diagram);
}

}  // namespace

draw::Figure draw_circuits(const std::vector<CircuitPicture>& models, const CircuitSettings& settings,
                           const std::string& task, const std::string& protocol) {
  std::vector<draw::Figure> figures = {draw_curves(models, settings, task, protocol)};
  for (const CircuitPicture& model : models) figures.push_back(draw_diagram(model, settings));
  return draw::arrange_figures(std::move(figures), 1);
}

}  // namespace openwork
