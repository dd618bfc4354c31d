#include "report/trace_text.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "base/token_marks.h"
#include "report/trace_figure.h"

namespace openwork {
namespace {

using Lines = std::vector<std::string>;

constexpr size_t kHeadsTold = 12, kSourcesTold = 5, kPairsTold = 5;

std::string mark_at(const TraceGraph& graph, int64_t position) {
  return mark_token(graph.tokens[static_cast<size_t>(position)]);
}

void add_moved(Lines& lines, const ModelTrace& trace) {
  if (trace.moved.empty()) return;
  std::string line;
  for (size_t n = 0; n < trace.moved.size() && n < kSourcesTold; ++n) {
    line += fmt::format("{}key {} {} {:.0f} %", n ? ", " : "", trace.moved[n].position,
                        mark_at(trace.graph, trace.moved[n].position), 100 * trace.moved[n].share);
  }
  lines.push_back(fmt::format("{}: moved to query {} {}: {}", trace.name, trace.explanation->to,
                              mark_at(trace.graph, trace.explanation->to), line));
}

void add_nodes(Lines& lines, const ModelTrace& trace, int64_t top) {
  lines.push_back(fmt::format("{:<16} {:>9} {:>10} {:<16} {}", "node", "influence", "value", "at", "about"));
  for (const size_t n : strongest_nodes(trace.graph, top)) {
    const TraceNode& node = trace.graph.nodes[n];
    const bool feature = node.kind == TraceNodeKind::kFeature;
    lines.push_back(fmt::format("{:<16} {:>9.4f} {:>10.4f} {:<16} {}", node.name(), node.influence,
                                node.value, mark_at(trace.graph, node.position),
                                feature ? printable(trace.labels[n], 60) : kind_name(node.kind)));
  }
}

void add_interventions(Lines& lines, const ModelTrace& trace) {
  if (trace.interventions.empty()) return;
  lines.push_back(
      fmt::format("{:<16} {:>7} {:>10} {:>10} {:>10} {:>10} {:>10}   change of the first answer's logit",
                  "changed", "times", "predicted", "frozen", "all paths", "final norm", "measured"));
  for (const TraceIntervention& change : trace.interventions) {
    lines.push_back(fmt::format("{:<16} {:>7.3g} {:>10.4f} {:>10.4f} {:>10.4f} {:>10.4f} {:>10.4f}",
                                change.node, change.factor, change.predicted, change.frozen, change.total,
                                change.by(Following::kFinalNorm), change.measured));
  }
  const InterventionAgreement agreement = compare_interventions(trace.interventions);
  const std::string closely =
      std::isnan(agreement.correlation) ? "" : fmt::format(", correlation {:.3f}", agreement.correlation);
  lines.push_back(fmt::format("{}: {} of {} changed the logit the way the graph predicts{}", trace.name,
                              agreement.same_sign, agreement.count, closely));
}

std::string pair_end(const TraceGraph& graph, int64_t node) {
  return node < 0 ? "the rest" : graph.nodes[static_cast<size_t>(node)].name();
}

void add_scores(Lines& lines, const ModelTrace& trace) {
  for (const QueryKeyAttribution& score : trace.scores) {
    std::string line;
    for (size_t n = 0; n < score.pairs.size() && n < kPairsTold; ++n) {
      line +=
          fmt::format("{}{} x {} {:+.3f}", n ? ", " : "", pair_end(trace.graph, score.pairs[n].query_node),
                      pair_end(trace.graph, score.pairs[n].key_node), score.pairs[n].weight);
    }
    lines.push_back(fmt::format("{}: {} score {:.4f}: {}", trace.name, score.name(), score.score, line));
  }
}

}  // namespace

std::string format_trace_header() {
  return fmt::format("{:<24} {:<14} {:>11} {:>7} {:>8} {:>12} {:>11} {:>11}", "model", "answer",
                     "probability", "nodes", "links", "attributed", "effects off", "shares off");
}

std::vector<std::string> format_trace_rows(const ModelTrace& trace) {
  Lines lines;
  const TraceGraph& graph = trace.graph;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const TraceNode& node = graph.nodes[n];
    if (node.kind != TraceNodeKind::kLogit) continue;
    lines.push_back(fmt::format("{:<24} {:<14} {:>9.3f} % {:>7} {:>8} {:>12} {:>11.1e} {:>11.1e}",
                                trace.title, mark_token(trace.labels[n]), 100 * node.probability,
                                graph.nodes.size(), graph.links.size(), graph.nodes_attributed,
                                graph.sums.effects, graph.sums.heads));
  }
  return lines;
}

std::vector<std::string> format_trace(const ModelTrace& trace, int64_t top) {
  Lines lines;
  if (trace.explanation) {
    lines.push_back(fmt::format("{}: {}", trace.name,
                                explain_in_one_line(*trace.explanation, kHeadsTold, trace.graph.tokens)));
    add_moved(lines, trace);
  }
  if (trace.graph.worth) lines.push_back(fmt::format("{}: {}", trace.name, describe_worth(trace.graph)));
  add_nodes(lines, trace, top);
  add_interventions(lines, trace);
  add_scores(lines, trace);
  return lines;
}

}  // namespace openwork
