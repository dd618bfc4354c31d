#include "analyze/trace/trace_records.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/correlation.h"

namespace openwork {
namespace {

std::optional<int64_t> parse_count(std::string_view text) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && next == end && value >= 0 ? std::optional(value) : std::nullopt;
}

}  // namespace

const char* kind_name(TraceNodeKind kind) {
  switch (kind) {
    case TraceNodeKind::kEmbedding:
      return "embedding";
    case TraceNodeKind::kFeature:
      return "feature";
    case TraceNodeKind::kMlp:
      return "mlp";
    case TraceNodeKind::kError:
      return "error";
    case TraceNodeKind::kBias:
      return "bias";
    case TraceNodeKind::kLogit:
      return "logit";
  }
  return "";
}

std::string TraceNode::name() const {
  const std::string layer_text = std::to_string(layer), place = "@" + std::to_string(position);
  switch (kind) {
    case TraceNodeKind::kEmbedding:
      return "T" + place;
    case TraceNodeKind::kFeature:
      return "L" + layer_text + "F" + std::to_string(feature) + place;
    case TraceNodeKind::kMlp:
      return "M" + layer_text + place;
    case TraceNodeKind::kError:
      return "E" + layer_text + place;
    case TraceNodeKind::kBias:
      return "B" + layer_text + place;
    case TraceNodeKind::kLogit:
      return std::to_string(feature);
  }
  return {};
}

std::optional<TraceNode> parse_trace_node(std::string_view name) {
  const size_t at = name.find('@');
  if (at == 0 || at == std::string_view::npos) return std::nullopt;
  const std::string_view what = name.substr(1, at - 1);  // behind the letter
  const std::optional<int64_t> position = parse_count(name.substr(at + 1));
  TraceNode node{.position = position.value_or(0)};
  std::optional<int64_t> layer = parse_count(what), feature = -1;
  if (const size_t letter = what.find('F'); name.front() == 'L' && letter != std::string_view::npos) {
    node.kind = TraceNodeKind::kFeature;
    layer = parse_count(what.substr(0, letter)), feature = parse_count(what.substr(letter + 1));
  } else if (name.front() == 'T' && what.empty()) {
    node.kind = TraceNodeKind::kEmbedding, layer = -1;
  } else if (name.front() == 'M' || name.front() == 'E') {
    node.kind = name.front() == 'M' ? TraceNodeKind::kMlp : TraceNodeKind::kError;
  } else {
    return std::nullopt;
  }
  if (!position || !layer || !feature) return std::nullopt;
  node.layer = *layer, node.feature = *feature;
  return node;
}

std::vector<double> parts_in_answer(const TraceGraph& graph) {
  std::vector<double> incoming(graph.nodes.size(), 0), parts;
  for (const TraceLink& link : graph.links)
    incoming[static_cast<size_t>(link.target)] += std::abs(link.weight);
  // Targets count 1 in all, by their probabilities; every other node by its own influence.
  double probability = 0;
  for (const TraceNode& node : graph.nodes)
    probability += node.kind == TraceNodeKind::kLogit ? node.probability : 0;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const TraceNode& node = graph.nodes[n];
    const double weight = node.kind != TraceNodeKind::kLogit ? node.influence
                          : probability > 0                  ? node.probability / probability
                                                             : 1;
    parts.push_back(incoming[n] > 0 ? weight / incoming[n] : 0);
  }
  return parts;
}

TraceGraph thin_graph(TraceGraph graph, size_t links, size_t heads) {
  const std::vector<double> parts = parts_in_answer(graph);
  const auto part = [&](const TraceLink& link) {
    return std::abs(link.weight) * parts[static_cast<size_t>(link.target)];
  };
  std::stable_sort(graph.links.begin(), graph.links.end(),
                   [&](const TraceLink& a, const TraceLink& b) { return part(a) > part(b); });
  if (graph.links.size() > links) graph.links.resize(links);
  for (TraceLink& link : graph.links) {
    for (size_t n = heads; n < link.heads.size(); ++n) link.other_heads += link.heads[n].weight;
    if (link.heads.size() > heads) link.heads.resize(heads);
  }
  return graph;
}

size_t first_target(const TraceGraph& graph) {
  const auto target = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                   [](const TraceNode& node) { return node.kind == TraceNodeKind::kLogit; });
  return static_cast<size_t>(target - graph.nodes.begin());
}

std::vector<size_t> strongest_nodes(const TraceGraph& graph, int64_t most) {
  std::vector<size_t> order;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.nodes[n].kind != TraceNodeKind::kLogit) order.push_back(n);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return graph.nodes[a].influence > graph.nodes[b].influence; });
  order.resize(std::min(order.size(), static_cast<size_t>(most)));
  return order;
}

std::string PatternEntry::name() const {
  return head.name() + ":" + std::to_string(query) + "<-" + std::to_string(key);
}

std::optional<PatternEntry> parse_pattern_entry(std::string_view text) {
  const size_t colon = text.find(':'), arrow = text.find("<-");
  if (colon == std::string_view::npos || arrow == std::string_view::npos || arrow < colon)
    return std::nullopt;
  const auto head = parse_head_place(text.substr(0, colon));
  const auto query = parse_count(text.substr(colon + 1, arrow - colon - 1)),
             key = parse_count(text.substr(arrow + 2));
  if (!head || !query || !key || *key > *query) return std::nullopt;
  return PatternEntry{*head, *query, *key};
}

const char* following_name(Following step) {
  constexpr std::array<const char*, 4> kNames = {"final_norm", "norms", "features", "patterns"};
  return kNames[static_cast<size_t>(step)];
}

InterventionAgreement compare_interventions(const std::vector<TraceIntervention>& interventions) {
  InterventionAgreement agreement;
  std::vector<float> predicted, total, measured;
  for (const TraceIntervention& change : interventions) {
    agreement.same_sign += (change.predicted < 0) == (change.measured < 0);
    predicted.push_back(static_cast<float>(change.predicted));
    total.push_back(static_cast<float>(change.total));
    measured.push_back(static_cast<float>(change.measured));
  }
  agreement.count = static_cast<int64_t>(interventions.size());
  agreement.correlation = agreement.rank = agreement.direct_rank = std::nan("");
  if (agreement.count < 3) return agreement;
  agreement.correlation = pearson_correlation(predicted, measured);
  agreement.rank = spearman_correlation(total, measured);
  agreement.direct_rank = spearman_correlation(predicted, measured);
  return agreement;
}

}  // namespace openwork
