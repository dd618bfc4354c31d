#include "report/trace_figure.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "draw/token_marks.h"

namespace openwork {
namespace {

constexpr int64_t kMostBands = 6;   // ranges of layers
constexpr size_t kMostGroups = 16;  // boxes of one panel
constexpr size_t kMostMoves = 16;   // links between tokens
constexpr size_t kMostRises = 12;   // links within a token
constexpr size_t kLabelledMoves = 9, kHeadsOnMove = 3, kLinesInBox = 3;

// A box of the figure while it is gathered.
struct Group {
  int64_t position = 0;
  int row = 0;
  double influence = 0;
  std::vector<size_t> nodes;  // of the graph, most influential first
};

struct Groups {
  std::vector<Group> list;
  std::vector<int> of_node;  // index of each node's group; -1: not drawn
};

// What passes from one group to another.
struct Flow {
  double weight = 0, heads_total = 0;
  std::map<HeadPlace, double> heads;  // absolute
};

bool has_row_of_layers(TraceNodeKind kind) {
  return kind == TraceNodeKind::kFeature || kind == TraceNodeKind::kMlp || kind == TraceNodeKind::kError;
}

int64_t band_size(int64_t layers) {
  return std::max<int64_t>(1, (layers + kMostBands - 1) / kMostBands);
}

std::vector<std::string> name_rows(int64_t layers) {
  std::vector<std::string> rows = {"tokens"};
  const int64_t size = band_size(layers);
  for (int64_t first = 0; first < layers; first += size) {
    const int64_t last = std::min(layers, first + size) - 1;
    rows.push_back(first == last ? fmt::format("layer {}", first) : fmt::format("layers {}–{}", first, last));
  }
  rows.push_back("answer");
  return rows;
}

// Tokens first, then the groups that matter most, then the answers.
Groups gather_groups(const TraceGraph& graph, int rows) {
  Groups groups{{}, std::vector<int>(graph.nodes.size(), -1)};
  std::map<std::pair<int64_t, int>, Group> by_place;
  for (size_t p = 0; p < graph.tokens.size(); ++p) groups.list.push_back({static_cast<int64_t>(p), 0, 0, {}});
  const int64_t size = band_size(graph.layers);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const TraceNode& node = graph.nodes[n];
    if (node.kind == TraceNodeKind::kEmbedding) {
      Group& token = groups.list.at(static_cast<size_t>(node.position));
      token.influence += node.influence, token.nodes.push_back(n);
    } else if (has_row_of_layers(node.kind)) {
      const int row = static_cast<int>(node.layer / size) + 1;
      Group& group =
          by_place.try_emplace({node.position, row}, Group{node.position, row, 0, {}}).first->second;
      group.influence += node.influence, group.nodes.push_back(n);
    }
  }
  std::vector<Group> bands;
  for (auto& [place, group] : by_place) bands.push_back(std::move(group));
  std::stable_sort(bands.begin(), bands.end(),
                   [](const Group& a, const Group& b) { return a.influence > b.influence; });
  if (bands.size() > kMostGroups) bands.resize(kMostGroups);
  groups.list.insert(groups.list.end(), bands.begin(), bands.end());
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.nodes[n].kind == TraceNodeKind::kLogit)
      groups.list.push_back({graph.nodes[n].position, rows - 1, 1, {n}});
  }
  for (size_t g = 0; g < groups.list.size(); ++g) {
    std::vector<size_t>& nodes = groups.list[g].nodes;
    std::stable_sort(nodes.begin(), nodes.end(),
                     [&](size_t a, size_t b) { return graph.nodes[a].influence > graph.nodes[b].influence; });
    for (const size_t n : nodes) groups.of_node[n] = static_cast<int>(g);
  }
  return groups;
}

std::string label_of(const NodeLabels& labels, size_t node) {
  return node < labels.size() ? labels[node] : "";
}

std::string name_in_box(const TraceNode& node, const std::string& about) {
  if (node.kind == TraceNodeKind::kMlp) return fmt::format("MLP {}", node.layer);
  if (node.kind == TraceNodeKind::kError) return fmt::format("L{} error", node.layer);
  const std::string name = fmt::format("L{}F{}", node.layer, node.feature);
  return about.empty() ? name : fmt::format("{} {}", name, draw::mark_token(about, 9));
}

std::vector<std::string> lines_of(const TraceGraph& graph, const Group& group, const NodeLabels& labels,
                                  int rows, double largest) {
  if (group.row == 0)
    return {draw::mark_token(graph.tokens[static_cast<size_t>(group.position)],
                             graph.tokens.size() > 16 ? 12 : 14)};
  const TraceNode& first = graph.nodes[group.nodes.front()];
  if (group.row == rows - 1) {
    const std::string token = label_of(labels, group.nodes.front());
    return {token.empty() ? fmt::format("token {}", first.feature) : draw::mark_token(token),
            fmt::format("{:.1f} %", 100 * first.probability)};
  }
  const double share = largest > 0 ? std::sqrt(group.influence / largest) : 0;
  const size_t most = std::min(kLinesInBox, 1 + static_cast<size_t>(std::lround(2 * share)));
  std::vector<std::string> lines;
  for (size_t n = 0; n < group.nodes.size() && n < most; ++n)
    lines.push_back(name_in_box(graph.nodes[group.nodes[n]], label_of(labels, group.nodes[n])));
  if (group.nodes.size() > most) lines.push_back(fmt::format("+ {} more", group.nodes.size() - most));
  return lines;
}

std::map<std::pair<int, int>, Flow> sum_flows(const TraceGraph& graph, const Groups& groups) {
  const std::vector<double> parts = parts_in_answer(graph);
  std::map<std::pair<int, int>, Flow> flows;
  for (const TraceLink& link : graph.links) {
    const size_t target = static_cast<size_t>(link.target);
    const int from = groups.of_node[static_cast<size_t>(link.source)], to = groups.of_node[target];
    if (from < 0 || to < 0 || from == to || parts[target] <= 0) continue;
    Flow& flow = flows[{from, to}];
    flow.weight += link.weight * parts[target];
    for (const HeadShare& head : link.heads) {
      flow.heads[head.head] += std::abs(head.weight) * parts[target];
      flow.heads_total += std::abs(head.weight) * parts[target];
    }
  }
  return flows;
}

std::vector<std::string> name_heads(const Flow& flow) {
  std::vector<std::pair<double, HeadPlace>> order;
  for (const auto& [place, weight] : flow.heads) order.emplace_back(-weight, place);
  std::sort(order.begin(), order.end());
  std::vector<std::string> names;
  for (size_t n = 0; n < order.size() && n < kHeadsOnMove && flow.heads_total > 0; ++n)
    names.push_back(
        fmt::format("{} {:.0f} %", order[n].second.name(), -100 * order[n].first / flow.heads_total));
  return names;
}

// The strongest moves between tokens, the first few with their heads, and the strongest rises within one.
std::vector<draw::TraceMove> choose_moves(const TraceGraph& graph, const Groups& groups) {
  const std::map<std::pair<int, int>, Flow> flows = sum_flows(graph, groups);
  std::vector<std::pair<std::pair<int, int>, const Flow*>> order;
  for (const auto& [ends, flow] : flows) order.emplace_back(ends, &flow);
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::abs(a.second->weight) > std::abs(b.second->weight);
  });
  std::vector<draw::TraceMove> moves;
  size_t between = 0, within = 0;
  for (const auto& [ends, flow] : order) {
    const bool same = groups.list[static_cast<size_t>(ends.first)].position ==
                      groups.list[static_cast<size_t>(ends.second)].position;
    if (same ? within++ >= kMostRises : between++ >= kMostMoves) continue;
    moves.push_back({ends.first, ends.second, flow->weight, {}});
    if (!same && between <= kLabelledMoves) moves.back().heads = name_heads(*flow);
  }
  return moves;
}

}  // namespace

std::string list_heads(const HeadExplanation& explanation, size_t most) {
  const size_t needed = static_cast<size_t>(explanation.needed);
  std::string line;
  for (size_t n = 0; n < std::min({needed, most, explanation.heads.size()}); ++n)
    line += (n == 0 ? "" : ", ") + explanation.heads[n].head.name();
  return line + (needed > most ? ", ..." : "");
}

std::string explain_in_one_line(const HeadExplanation& explanation, size_t most) {
  const bool one = explanation.needed == 1;
  const std::string heads = list_heads(explanation, most);
  return fmt::format("{} head{} {} {:.0f} % of key {} -> query {}{}{}", explanation.needed, one ? "" : "s",
                     one ? "carries" : "carry", 100 * explanation.share, explanation.from, explanation.to,
                     heads.empty() ? "" : ": ", heads);
}

draw::TracePanel make_trace_panel(const TracePicture& picture) {
  const TraceGraph& graph = *picture.graph;
  draw::TracePanel panel;
  panel.title = picture.name;
  panel.rows = name_rows(graph.layers);
  for (const std::string& token : graph.tokens) panel.tokens.push_back(draw::mark_token(token));
  if (picture.explanation) {
    panel.caption = explain_in_one_line(*picture.explanation, 10);
    panel.key = static_cast<int>(picture.explanation->from),
    panel.query = static_cast<int>(picture.explanation->to);
  }
  const int rows = static_cast<int>(panel.rows.size());
  const Groups groups = gather_groups(graph, rows);
  double largest = 0;
  for (const Group& group : groups.list)
    largest = std::max(largest, group.row == rows - 1 ? 0 : group.influence);
  for (const Group& group : groups.list) {
    panel.boxes.push_back({static_cast<int>(group.position), group.row, group.influence,
                           lines_of(graph, group, picture.labels, rows, largest)});
  }
  panel.moves = choose_moves(graph, groups);
  return panel;
}

draw::Figure draw_traces(const std::vector<TracePicture>& pictures, const draw::Caption& caption) {
  draw::TraceDiagram diagram{caption, {}, 0};
  for (const TracePicture& picture : pictures) diagram.panels.push_back(make_trace_panel(picture));
  return draw::draw_trace_diagram(diagram);
}

std::string describe_worth(const TraceGraph& graph) {
  const TraceWorth& worth = *graph.worth;
  const double probability = graph.nodes[first_target(graph)].probability;
  const std::string losses =
      std::isnan(worth.model_loss)
          ? ""
          : fmt::format("; the prompt's loss {:.3f} nats, with all MLPs replaced {:.3f}", worth.model_loss,
                        worth.replaced_loss);
  return fmt::format(
      "replacement score {:.3f}, completeness {:.3f}, {:.1f} % of the influence ends in errors{}; the "
      "answer's "
      "probability {:.2f} %, replaced {:.2f} %",
      worth.replacement, worth.completeness, 100 * worth.error_share, losses, 100 * probability,
      100 * worth.replaced_probability);
}

std::string describe_answers(const std::vector<ModelTrace>& traces) {
  if (have_one_answer(traces)) return "";
  std::vector<std::string> answers;
  for (const ModelTrace& trace : traces)
    answers.push_back(fmt::format("{} to {}", trace.title, draw::mark_token(trace.target_text())));
  return fmt::format("The models answer differently, and each is traced to its own answer: {}.",
                     fmt::join(answers, ", "));
}

draw::Figure draw_model_traces(const std::vector<ModelTrace>& traces, const std::string& prompt,
                               const std::string& protocol) {
  const char* const nodes = traces.front().transcoders ? "features" : "MLPs";
  std::string words = fmt::format(
      "Boxes: {} by token and range of layers, the most influential first; links: their part in what reaches "
      "the answer, with the heads that make the last move between tokens. Biases and weaker parts are not "
      "drawn. ",
      nodes);
  if (const std::string answers = describe_answers(traces); !answers.empty()) words += answers + " ";
  std::vector<TracePicture> pictures;
  for (const ModelTrace& trace : traces) {
    pictures.push_back({trace.title, &trace.graph, trace.explanation, trace.labels});
    if (trace.graph.worth) words += fmt::format("{}: {}. ", trace.title, describe_worth(trace.graph));
  }
  return draw_traces(pictures, {fmt::format("From tokens through {} and heads to the answer", nodes), prompt,
                                words + protocol});
}

}  // namespace openwork
