#include "cli/trace_report.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "base/token_marks.h"
#include "report/trace_figure.h"

namespace openwork {
namespace {

constexpr size_t kHeadsNamed = 12, kSourcesNamed = 5, kPairsNamed = 5;

std::string mark_position(const TraceGraph& graph, int64_t position) {
  return mark_token(graph.tokens[static_cast<size_t>(position)]);
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
  print_result(common,
               fmt::format("{:<16} {:>7} {:>10} {:>10} {:>10} {:>10}   change of the first answer's logit",
                           "changed", "times", "predicted", "frozen", "all paths", "measured"));
  for (const TraceIntervention& change : trace.interventions) {
    print_result(common,
                 fmt::format("{:<16} {:>7.3g} {:>10.4f} {:>10.4f} {:>10.4f} {:>10.4f}", change.node,
                             change.factor, change.predicted, change.frozen, change.total, change.measured));
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
    print_result(common, fmt::format("{}: {} score {:.4f}: {}", trace.name, score.name(), score.score, line));
  }
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
                                     trace.title, mark_token(trace.labels[n]), 100 * node.probability,
                                     graph.nodes.size(), graph.links.size(), graph.nodes_attributed,
                                     graph.sums.effects, graph.sums.heads));
  }
}

void print_trace(const CommonOptions& common, const ModelTrace& trace, int64_t top) {
  if (trace.explanation) {
    print_result(common,
                 fmt::format("{}: {}", trace.name,
                             explain_in_one_line(*trace.explanation, kHeadsNamed, trace.graph.tokens)));
    print_moved(common, trace);
  }
  if (trace.graph.worth) print_result(common, fmt::format("{}: {}", trace.name, describe_worth(trace.graph)));
  print_nodes(common, trace, top);
  print_interventions(common, trace);
  print_scores(common, trace);
}

}  // namespace openwork
