#include "cli/trace_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "cli/figure_options.h"
#include "draw/token_marks.h"

namespace openwork {
namespace {

constexpr size_t kHeadsNamed = 12, kSourcesNamed = 5, kPairsNamed = 5;

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

std::string mark_position(const TraceGraph& graph, int64_t position) {
  return draw::mark_token(graph.tokens[static_cast<size_t>(position)]);
}

// Nodes by influence, the largest first, targets left out.
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

void print_moved(const CommonOptions& common, const ModelTrace& trace) {
  if (trace.moved.empty()) return;
  std::string line;
  for (size_t n = 0; n < trace.moved.size() && n < kSourcesNamed; ++n) {
    line += fmt::format("{}key {} {} {:.0f} %", n ? ", " : "", trace.moved[n].position,
                        mark_position(trace.graph, trace.moved[n].position), 100 * trace.moved[n].share);
  }
  print_result(common, fmt::format("{}: moved to query {} {}: {}", trace.name, trace.explanation->to,
                                   mark_position(trace.graph, trace.explanation->to), line));
}

void print_nodes(const CommonOptions& common, const ModelTrace& trace, int64_t top) {
  print_result(common,
               fmt::format("{:<16} {:>9} {:>10} {:<16} {}", "node", "influence", "value", "at", "about"));
  for (const size_t n : strongest_nodes(trace.graph, top)) {
    const TraceNode& node = trace.graph.nodes[n];
    const bool feature = node.kind == TraceNodeKind::kFeature;
    print_result(common, fmt::format("{:<16} {:>9.4f} {:>10.4f} {:<16} {}", node.name(), node.influence,
                                     node.value, mark_position(trace.graph, node.position),
                                     feature ? printable(trace.labels[n], 60) : kind_name(node.kind)));
  }
}

void print_interventions(const CommonOptions& common, const ModelTrace& trace) {
  if (trace.interventions.empty()) return;
  print_result(common, fmt::format("{:<16} {:>7} {:>10} {:>10} {:>10}   change of the first answer's logit",
                                   "changed", "times", "predicted", "frozen", "measured"));
  for (const TraceIntervention& change : trace.interventions) {
    print_result(common, fmt::format("{:<16} {:>7.3g} {:>10.4f} {:>10.4f} {:>10.4f}", change.node,
                                     change.factor, change.predicted, change.frozen, change.measured));
  }
  const InterventionAgreement agreement = compare_interventions(trace.interventions);
  const std::string closely =
      std::isnan(agreement.correlation) ? "" : fmt::format(", correlation {:.3f}", agreement.correlation);
  print_result(common, fmt::format("{}: {} of {} changed the logit the way the graph predicts{}", trace.name,
                                   agreement.same_sign, agreement.count, closely));
}

std::string pair_end(const TraceGraph& graph, int64_t node) {
  return node < 0 ? "the rest" : graph.nodes[static_cast<size_t>(node)].name();
}

void print_scores(const CommonOptions& common, const ModelTrace& trace) {
  for (const QueryKeyAttribution& score : trace.scores) {
    std::string line;
    for (size_t n = 0; n < score.pairs.size() && n < kPairsNamed; ++n) {
      line +=
          fmt::format("{}{} x {} {:+.3f}", n ? ", " : "", pair_end(trace.graph, score.pairs[n].query_node),
                      pair_end(trace.graph, score.pairs[n].key_node), score.pairs[n].weight);
    }
    print_result(common, fmt::format("{}: {}:{}<-{} score {:.4f}: {}", trace.name, score.head.name(),
                                     score.query, score.key, score.score, line));
  }
}

nlohmann::json explanation_json(const HeadExplanation& explanation) {
  std::map<HeadPlace, double> flows;
  for (const HeadShare& flow : explanation.flows) flows[flow.head] = flow.weight;
  nlohmann::json heads = nlohmann::json::array();
  for (size_t n = 0; n < explanation.heads.size(); ++n) {
    const HeadPlace& head = explanation.heads[n].head;
    heads.push_back({{"head", head.name()},
                     {"weight", explanation.heads[n].weight},
                     {"signed", n < explanation.signed_heads.size() ? explanation.signed_heads[n].weight : 0},
                     {"flow", flows.contains(head) ? flows.at(head) : 0}});
  }
  return {{"from", explanation.from},     {"to", explanation.to},       {"share", explanation.share},
          {"needed", explanation.needed}, {"total", explanation.total}, {"heads", heads}};
}

nlohmann::json node_json(const ModelTrace& trace, size_t n) {
  const TraceNode& node = trace.graph.nodes[n];
  nlohmann::json json = {{"name", node.name()},         {"kind", kind_name(node.kind)}, {"layer", node.layer},
                         {"position", node.position},   {"feature", nullptr},           {"value", node.value},
                         {"influence", node.influence}, {"about", trace.labels[n]}};
  if (node.kind == TraceNodeKind::kFeature) json["feature"] = node.feature;
  return json;
}

nlohmann::json interventions_json(const ModelTrace& trace) {
  nlohmann::json rows = nlohmann::json::array();
  for (const TraceIntervention& change : trace.interventions) {
    rows.push_back({{"node", change.node},
                    {"factor", change.factor},
                    {"predicted", change.predicted},
                    {"frozen", change.frozen},
                    {"measured", change.measured}});
  }
  return rows;
}

nlohmann::json scores_json(const ModelTrace& trace) {
  nlohmann::json rows = nlohmann::json::array();
  for (const QueryKeyAttribution& score : trace.scores) {
    nlohmann::json pairs = nlohmann::json::array();
    for (const QueryKeyPair& pair : score.pairs) {
      pairs.push_back({{"query", nullptr}, {"key", nullptr}, {"weight", pair.weight}});
      if (pair.query_node >= 0) pairs.back()["query"] = pair_end(trace.graph, pair.query_node);
      if (pair.key_node >= 0) pairs.back()["key"] = pair_end(trace.graph, pair.key_node);
    }
    rows.push_back({{"entry", fmt::format("{}:{}<-{}", score.head.name(), score.query, score.key)},
                    {"score", score.score},
                    {"pairs", pairs}});
  }
  return rows;
}

}  // namespace

void print_trace_header(const CommonOptions& common) {
  print_result(common,
               fmt::format("{:<24} {:<14} {:>11} {:>7} {:>8} {:>12} {:>11} {:>11}", "model", "answer",
                           "probability", "nodes", "links", "attributed", "effects off", "shares off"));
}

void print_trace_row(const CommonOptions& common, const ModelTrace& trace) {
  const TraceGraph& graph = trace.graph;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const TraceNode& node = graph.nodes[n];
    if (node.kind != TraceNodeKind::kLogit) continue;
    print_result(common, fmt::format("{:<24} {:<14} {:>9.3f} % {:>7} {:>8} {:>12} {:>11.1e} {:>11.1e}",
                                     short_name(trace.name), draw::mark_token(trace.labels[n]),
                                     100 * node.probability, graph.nodes.size(), graph.links.size(),
                                     graph.nodes_attributed, graph.sums.effects, graph.sums.heads));
  }
}

void print_trace(const CommonOptions& common, const ModelTrace& trace, int64_t top) {
  if (trace.explanation) {
    print_result(common,
                 fmt::format("{}: {}", trace.name, explain_in_one_line(*trace.explanation, kHeadsNamed)));
    print_moved(common, trace);
  }
  print_nodes(common, trace, top);
  print_interventions(common, trace);
  print_scores(common, trace);
}

draw::Figure draw_model_traces(const std::vector<ModelTrace>& traces, const GivenPrompts& given,
                               const nlohmann::json& protocol) {
  Prompts shown;
  shown.ids = {traces.front().graph.ids};
  const bool features = !traces.front().transcoder_files.is_null();
  const draw::Caption caption{
      fmt::format("From tokens through {} and heads to the answer", features ? "features" : "MLPs"),
      describe_prompts(given, shown),
      fmt::format("Boxes: {} by token and range of layers, the most influential first; links: their part in "
                  "what reaches "
                  "the answer, with the heads that make the last move between tokens. Biases and weaker "
                  "parts are not drawn. {}",
                  features ? "features" : "MLPs", describe_protocol(protocol))};
  std::vector<TracePicture> pictures;
  for (const ModelTrace& trace : traces)
    pictures.push_back({short_name(trace.name), &trace.graph, trace.explanation, trace.labels});
  return draw_traces(pictures, caption);
}

nlohmann::json trace_json(const ModelTrace& trace, int64_t top) {
  const TraceGraph& graph = trace.graph;
  nlohmann::json targets = nlohmann::json::array(), moved = nlohmann::json::array(),
                 nodes = nlohmann::json::array();
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const TraceNode& node = graph.nodes[n];
    if (node.kind == TraceNodeKind::kLogit)
      targets.push_back({{"id", node.feature},
                         {"token", trace.labels[n]},
                         {"logit", node.value},
                         {"probability", node.probability}});
  }
  for (const MovedFrom& from : trace.moved) moved.push_back({{"from", from.position}, {"share", from.share}});
  for (const size_t n : strongest_nodes(graph, top)) nodes.push_back(node_json(trace, n));
  nlohmann::json json = {{"name", trace.name},
                         {"ids", graph.ids},
                         {"tokens", graph.tokens},
                         {"transcoders", trace.transcoder_files},
                         {"targets", targets},
                         {"nodes", graph.nodes.size()},
                         {"links", graph.links.size()},
                         {"active_features", graph.active_features},
                         {"attributed", graph.nodes_attributed},
                         {"bytes_needed", trace.bytes_needed},
                         {"sums",
                          {{"effects", graph.sums.effects},
                           {"targets", graph.sums.targets},
                           {"heads", graph.sums.heads},
                           {"links", graph.sums.links}}},
                         {"explanation", nullptr},
                         {"moved", moved},
                         {"strongest", nodes},
                         {"interventions", interventions_json(trace)},
                         {"query_key", scores_json(trace)}};
  if (trace.explanation) json["explanation"] = explanation_json(*trace.explanation);
  if (!trace.interventions.empty()) {
    const InterventionAgreement agreement = compare_interventions(trace.interventions);
    json["agreement"] = {
        {"same_sign", agreement.same_sign}, {"of", agreement.count}, {"correlation", nullptr}};
    if (!std::isnan(agreement.correlation)) json["agreement"]["correlation"] = agreement.correlation;
  }
  return json;
}

}  // namespace openwork
