#include "report/trace_figure.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/number_text.h"
#include "base/token_marks.h"
#include "draw/score_grid.h"

namespace openwork {
namespace {

constexpr size_t kMostGroups = 18;  // boxes of one panel
constexpr size_t kMostMoves = 16;   // links between tokens
constexpr size_t kMostRises = 12;   // links within a token
constexpr size_t kLabelledMoves = 9, kHeadsOnMove = 3, kWordsInBox = 3, kFedNamed = 2, kMovesTold = 3;
constexpr int kScoresInRow = 2;
constexpr double kLeastFed = 0.1,
                 kOwnToken = 0.6;  // a box fed by its own token so much does not say by which

// A box of the figure while it is gathered.
struct Group {
  int64_t position = 0;
  int row = 0;
  double influence = 0;
  std::vector<size_t> nodes;             // of the graph, most influential first
  const Supernode* supernode = nullptr;  // of a box between tokens and answers
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

std::vector<std::string> name_rows(int64_t layers) {
  std::vector<std::string> rows = {"tokens"};
  const int64_t size = layers_in_range(layers);
  for (int64_t first = 0; first < layers; first += size) {
    const int64_t last = std::min(layers, first + size) - 1;
    rows.push_back(first == last ? fmt::format("layer {}", first) : fmt::format("layers {}–{}", first, last));
  }
  rows.push_back("answer");
  return rows;
}

// Tokens first, then the supernodes that matter most, then the answers.
Groups gather_groups(const TraceGraph& graph, const std::vector<Supernode>& supernodes, int rows) {
  Groups groups{{}, std::vector<int>(graph.nodes.size(), -1)};
  for (size_t p = 0; p < graph.tokens.size(); ++p)
    groups.list.push_back({static_cast<int64_t>(p), 0, 0, {}, nullptr});
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.nodes[n].kind != TraceNodeKind::kEmbedding) continue;
    Group& token = groups.list.at(static_cast<size_t>(graph.nodes[n].position));
    token.influence += graph.nodes[n].influence, token.nodes.push_back(n);
  }
  const int64_t size = layers_in_range(graph.layers);
  for (size_t g = 0; g < supernodes.size() && g < kMostGroups; ++g) {
    const Supernode& group = supernodes[g];
    groups.list.push_back({group.position, static_cast<int>(group.first_layer / size) + 1, group.influence,
                           std::vector<size_t>(group.nodes.begin(), group.nodes.end()), &group});
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.nodes[n].kind == TraceNodeKind::kLogit)
      groups.list.push_back({graph.nodes[n].position, rows - 1, 1, {n}, nullptr});
  }
  for (size_t g = 0; g < groups.list.size(); ++g) {
    for (const size_t n : groups.list[g].nodes) groups.of_node[n] = static_cast<int>(g);
  }
  return groups;
}

std::string label_of(const NodeLabels& labels, size_t node) {
  return node < labels.size() ? labels[node] : "";
}

std::string mark_words(const char* verb, const std::vector<std::string>& words) {
  std::string text = verb;
  for (size_t n = 0; n < words.size() && n < kWordsInBox; ++n) text += " " + mark_token(words[n], 9);
  return text;
}

std::string name_in_box(const TraceNode& node) {
  if (node.kind == TraceNodeKind::kMlp) return fmt::format("MLP {}", node.layer);
  return node.kind == TraceNodeKind::kError ? fmt::format("L{}", node.layer)
                                            : fmt::format("L{}F{}", node.layer, node.feature);
}

// What it says or fires on, what feeds it, and its strongest node.
std::vector<std::string> lines_of_supernode(const TraceGraph& graph, const Supernode& group) {
  std::vector<std::string> lines;
  if (!group.about.empty()) lines.push_back(mark_words("on", group.about));
  if (!group.says.empty()) lines.push_back(mark_words("says", group.says));
  if (group.kind == TraceNodeKind::kError) lines.push_back("errors");
  std::string fed;
  size_t named = 0;
  for (const FedBy& token : group.fed) {
    if (group.kind == TraceNodeKind::kError || (token.position == group.position && token.share >= kOwnToken))
      break;
    if (token.position == group.position || token.share < kLeastFed || named >= kFedNamed) continue;
    fed += fmt::format("{}{} {:.0f} %", named++ == 0 ? "from " : ", ",
                       mark_token(graph.tokens[static_cast<size_t>(token.position)], 10), 100 * token.share);
  }
  if (!fed.empty()) lines.push_back(fed);
  std::string strongest = name_in_box(graph.nodes[static_cast<size_t>(group.nodes.front())]);
  if (const auto others = static_cast<int64_t>(group.nodes.size()) - 1 + group.left_out; others > 0)
    strongest += fmt::format(" + {}", others);
  lines.push_back(strongest);
  return lines;
}

std::vector<std::string> lines_of(const TraceGraph& graph, const Group& group, const NodeLabels& labels) {
  if (group.supernode != nullptr) return lines_of_supernode(graph, *group.supernode);
  if (group.row == 0)
    return {
        mark_token(graph.tokens[static_cast<size_t>(group.position)], graph.tokens.size() > 16 ? 12 : 14)};
  const TraceNode& first = graph.nodes[group.nodes.front()];
  const std::string token = label_of(labels, group.nodes.front());
  return {token.empty() ? fmt::format("token {}", first.feature) : mark_token(token),
          fmt::format("{:.1f} %", 100 * first.probability)};
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
    const Group &from = groups.list[static_cast<size_t>(ends.first)],
                &to = groups.list[static_cast<size_t>(ends.second)];
    const bool same = from.position == to.position;
    if (same && from.row == to.row) continue;  // side by side in one cell: nothing to see
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

std::string explain_in_one_line(const HeadExplanation& explanation, size_t most,
                                const std::vector<std::string>& tokens) {
  const bool one = explanation.needed == 1;
  const std::string heads = list_heads(explanation, most);
  const auto place = [&](int64_t position) {
    const auto at = static_cast<size_t>(position);
    return at < tokens.size() ? fmt::format("{} {}", position, mark_token(tokens[at]))
                              : std::to_string(position);
  };
  return fmt::format("{} {} {:.0f} % of key {} -> query {}{}{}", count_of(explanation.needed, "head"),
                     one ? "carries" : "carry", 100 * explanation.share, place(explanation.from),
                     place(explanation.to), heads.empty() ? "" : ": ", heads);
}

std::string tell_moves(const draw::TracePanel& panel, size_t most) {
  const auto name = [&](int index) {
    const draw::TraceBox& box = panel.boxes[static_cast<size_t>(index)];
    const std::string token = panel.tokens[static_cast<size_t>(box.column)];
    if (box.row == 0) return token;
    if (box.row + 1 == static_cast<int>(panel.rows.size())) return "the answer " + box.lines.front();
    return fmt::format("{} ({}, {})", token, panel.rows[static_cast<size_t>(box.row)], box.lines.front());
  };
  std::string told;
  for (const draw::TraceMove& move : panel.moves) {
    if (most == 0 || move.heads.empty()) continue;
    --most;
    const bool raises = move.weight >= 0;
    told += fmt::format("{}{} {} {} by {}", told.empty() ? "" : "; ", name(move.from),
                        raises ? "raises" : "lowers", name(move.to), fmt::join(move.heads, ", "));
  }
  return told.empty() ? told : told + ".";
}

draw::TracePanel make_trace_panel(const TracePicture& picture) {
  const TraceGraph& graph = *picture.graph;
  draw::TracePanel panel;
  panel.title = picture.name;
  panel.rows = name_rows(graph.layers);
  for (const std::string& token : graph.tokens) panel.tokens.push_back(mark_token(token));
  if (picture.explanation) {
    panel.caption = explain_in_one_line(*picture.explanation, 10, graph.tokens);
    panel.key = static_cast<int>(picture.explanation->from),
    panel.query = static_cast<int>(picture.explanation->to);
  }
  const int rows = static_cast<int>(panel.rows.size());
  const std::vector<Supernode> supernodes =
      picture.supernodes.empty() ? group_nodes(graph, picture.labels, {}) : picture.supernodes;
  const Groups groups = gather_groups(graph, supernodes, rows);
  for (const Group& group : groups.list) {
    panel.boxes.push_back({static_cast<int>(group.position), group.row, group.influence,
                           lines_of(graph, group, picture.labels),
                           group.supernode != nullptr && group.supernode->effect < 0});
  }
  panel.moves = choose_moves(graph, groups);
  if (const std::string told = tell_moves(panel, kMovesTold); !told.empty())
    panel.caption += (panel.caption.empty() ? "" : "\n") + told;
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
    answers.push_back(fmt::format("{} to {}", trace.title, mark_token(trace.target_text())));
  return fmt::format("The models answer differently, and each is traced to its own answer: {}.",
                     fmt::join(answers, ", "));
}

std::vector<draw::Figure> draw_scores(const ModelTrace& trace) {
  const auto name = [&](int64_t node, const char* others) -> std::string {
    if (node < 0) return others;
    const TraceNode& one = trace.graph.nodes[static_cast<size_t>(node)];
    const std::string about = label_of(trace.labels, static_cast<size_t>(node));
    return about.empty() ? one.name() : fmt::format("{} {}", one.name(), mark_token(about, 10));
  };
  std::vector<draw::Figure> figures;
  for (const QueryKeyAttribution& score : trace.scores) {
    draw::ScoreGrid grid;
    grid.title = fmt::format("{}: score {} {:.3f}", trace.title, score.name(), score.score);
    grid.caption = fmt::format(
        "why {} at query {} {} looks at key {} {}: rows are of the query, columns of the key",
        score.head.name(), score.query, mark_token(trace.graph.tokens[static_cast<size_t>(score.query)]),
        score.key, mark_token(trace.graph.tokens[static_cast<size_t>(score.key)]));
    for (const int64_t node : score.queries) grid.rows.push_back(name(node, "all others, biases"));
    for (const int64_t node : score.keys) grid.columns.push_back(name(node, "all others, biases"));
    grid.weights = score.weights;
    figures.push_back(draw::draw_score_grid(grid));
  }
  return figures;
}

draw::Figure draw_model_traces(const std::vector<ModelTrace>& traces, const std::string& prompt,
                               const std::string& protocol) {
  const char* const nodes = traces.front().transcoders ? "features" : "MLPs";
  std::string words = fmt::format(
      "Boxes: {} of one token and range of layers that are fed and read alike: the tokens they fire on, "
      "those they "
      "speak for (says), the tokens that feed them where they are others (from), the strongest and how many "
      "more; "
      "links: their part in what reaches the answer, with the heads that make the last move between tokens. "
      "Biases "
      "and weaker parts are not drawn. ",
      nodes);
  if (const std::string answers = describe_answers(traces); !answers.empty()) words += answers + " ";
  std::vector<TracePicture> pictures;
  std::vector<draw::Figure> scores;
  for (const ModelTrace& trace : traces) {
    pictures.push_back({trace.title, &trace.graph, trace.explanation, trace.labels, trace.supernodes});
    if (trace.graph.worth) words += fmt::format("{}: {}. ", trace.title, describe_worth(trace.graph));
    for (draw::Figure& score : draw_scores(trace)) scores.push_back(std::move(score));
  }
  const draw::Caption caption{fmt::format("From tokens through {} and heads to the answer", nodes), prompt,
                              words + protocol};
  if (scores.empty()) return draw_traces(pictures, caption);
  return draw::arrange_figures(
      {draw_traces(pictures, {}), draw::arrange_figures(std::move(scores), kScoresInRow)}, 1, caption);
}

}  // namespace openwork
