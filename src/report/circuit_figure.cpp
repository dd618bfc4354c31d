#include "report/circuit_figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/number_text.h"
#include "draw/circuit_diagram.h"
#include "draw/line_chart.h"
#include "report/captions.h"

namespace openwork {
namespace {

constexpr size_t kDrawnHeads = 60;

std::string parts_name(CircuitLevel level) {
  return level == CircuitLevel::kHead            ? "heads"
         : level == CircuitLevel::kAttentionEdge ? "attention edges"
                                                 : "graph edges";
}

draw::Figure draw_curves(const std::vector<ModelCircuits>& models, const CircuitSettings& settings,
                         const std::vector<std::string>& names, const std::string& task) {
  draw::LineChart chart;
  chart.caption.title = fmt::format("Faithfulness on {}", task);
  chart.width = 420, chart.height = 270;
  chart.x_name = parts_name(settings.level) + " kept";
  chart.y_name = "faithfulness";
  chart.x_logarithmic = settings.level != CircuitLevel::kHead;
  chart.marks.push_back(
      {.x = {}, .y = settings.threshold, .label = fmt::format("{:.0f} %", 100 * settings.threshold)});
  for (size_t n = 0; n < models.size(); ++n) {
    const CircuitCurve& curve = models[n].shown().curve;
    draw::Line line{
        .name = fmt::format("{}: {} of {}", names[n], curve.at_threshold, models[n].shown().candidates),
        .colour = draw::model_colour(n, models.size())};
    for (const CurvePoint& point : curve.points) {
      if (chart.x_logarithmic && point.count == 0) continue;
      line.x.push_back(static_cast<double>(point.count)), line.y.push_back(point.faithfulness);
      line.low.push_back(point.interval.low), line.high.push_back(point.interval.high);
    }
    chart.lines.push_back(std::move(line));
  }
  return draw::draw_line_chart(chart);
}

std::string describe_size(const Circuit& circuit, const CircuitSettings& settings, size_t shown) {
  std::string text = fmt::format("{} at {:.0f} % of the metric", count_of(circuit.heads_at_threshold, "head"),
                                 100 * settings.threshold);
  if (circuit.edges_at_threshold)
    text += fmt::format(", {} {}", *circuit.edges_at_threshold, parts_name(settings.level));
  if (shown < circuit.roles.size()) text += fmt::format("; the first {} shown", shown);
  return text;
}

// Nodes as a diagram has them: row 0 is the input's, row n + 1 layer n's.
class DiagramNodes {
 public:
  void add(const GraphNode& node, int64_t row, double column, const std::string& note = "") {
    if (!index_.try_emplace(node, static_cast<int>(nodes.size())).second) return;
    nodes.push_back(
        {.name = to_string(node), .row = static_cast<int>(row), .column = column, .weight = 1, .note = note});
    top = std::max(top, row);
  }
  // -1: not shown.
  int find(const GraphNode& node) const {
    const auto at = index_.find(node);
    return at == index_.end() ? -1 : at->second;
  }

  std::vector<draw::CircuitNode> nodes;
  int64_t top = 0;

 private:
  std::map<GraphNode, int> index_;
};

// The heads shown, what edges bring with them besides, and the logits above all.
DiagramNodes list_nodes(const ModelCircuits& model, size_t shown) {
  DiagramNodes list;
  double widest = 0;  // input and logits start in the middle
  for (const HeadRole& role : model.shown().roles)
    widest = std::max(widest, static_cast<double>(role.head.head));
  for (size_t n = 0; n < shown; ++n) {
    const HeadRole& role = model.shown().roles[n];
    list.add({GraphNode::Kind::kHead, role.head}, role.head.layer + 1, static_cast<double>(role.head.head),
             role.role == "other" ? "" : role.role);
  }
  for (const DrawnEdge& edge : model.edges) {
    for (const GraphNode& node : {edge.from, edge.to}) {
      if (node.kind == GraphNode::Kind::kInput) list.add(node, 0, 0.5 * widest);
      if (node.kind == GraphNode::Kind::kMlp) list.add(node, node.place.layer + 1, widest + 1);
    }
  }
  if (!model.edges.empty()) list.add({GraphNode::Kind::kLogits}, list.top + 1, 0.5 * widest);
  return list;
}

// Heads by layer, input below, logits above.
draw::Figure draw_diagram(const ModelCircuits& model, const CircuitSettings& settings,
                          const std::string& name) {
  const size_t shown = std::min(model.shown().roles.size(), kDrawnHeads);
  draw::CircuitDiagram diagram;
  diagram.caption.title = name;
  diagram.caption.subtitle = describe_size(model.shown(), settings, shown);
  if (!model.edges.empty())
    diagram.caption.note =
        "Arrows: attribution patching, the strongest between what is shown, to a head's query, key or value; "
        "blue helps, orange hurts.";
  DiagramNodes list = list_nodes(model, shown);
  for (const DrawnEdge& edge : model.edges) {
    const int from = list.find(edge.from), to = list.find(edge.to);
    if (from < 0 || to < 0) continue;
    diagram.edges.push_back({.from = from,
                             .to = to,
                             .weight = edge.score,
                             .label = edge.input ? std::string(1, input_name(*edge.input)) : ""});
  }
  diagram.nodes = std::move(list.nodes);
  const int64_t layers = model.edges.empty() ? list.top : list.top - 1;
  diagram.row_names = {"input"};
  for (int64_t layer = 0; layer < layers; ++layer)
    diagram.row_names.push_back(fmt::format("layer {}", layer));
  if (!model.edges.empty()) diagram.row_names.push_back("logits");
  return draw::draw_circuit_diagram(diagram);
}

}  // namespace

draw::Figure draw_circuits(const std::vector<ModelCircuits>& models, const CircuitSettings& settings,
                           const std::string& task, const std::string& protocol) {
  const std::vector<std::string> names = short_names_of(models);
  std::vector<draw::Figure> figures = {draw_curves(models, settings, names, task)};
  for (size_t n = 0; n < models.size(); ++n) figures.push_back(draw_diagram(models[n], settings, names[n]));
  return draw::arrange_figures(std::move(figures), 1, {"", "", protocol});
}

}  // namespace openwork
