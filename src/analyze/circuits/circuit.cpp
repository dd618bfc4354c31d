#include "analyze/circuits/circuit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "analyze/circuits/circuit_parts.h"
#include "analyze/circuits/share_rows.h"

namespace openwork {
namespace {

// The first `count` of a list.
template <typename T>
std::vector<T> first_of(const std::vector<T>& list, size_t count) {
  return {list.begin(), list.begin() + static_cast<std::ptrdiff_t>(std::min(count, list.size()))};
}

// Heads alone: their circuit after dropping what it can spare, and how many are left so at every level. Dropping
// goes by single heads, so the set of a higher level may end up smaller: it then serves the lower ones too.
void add_greedy(AblationRunner& runner, const std::vector<HeadPlace>& order, double threshold,
                Circuit& circuit) {
  std::map<double, SpareCircuit> by_level;
  const auto drop_from = [&](int64_t count, double level) {
    by_level.emplace(
        level, drop_spare_heads(runner, first_of(order, static_cast<size_t>(count)), circuit.curve, level));
  };
  for (const LevelCount& at : circuit.curve.at) drop_from(at.count, at.level);
  if (!by_level.contains(threshold)) drop_from(circuit.curve.at_threshold, threshold);
  const auto smallest_from = [&](double level) -> const SpareCircuit& {
    return std::min_element(
               by_level.lower_bound(level), by_level.end(),
               [](const auto& a, const auto& b) { return a.second.heads.size() < b.second.heads.size(); })
        ->second;
  };
  circuit.greedy = smallest_from(threshold);
  for (const LevelCount& at : circuit.curve.at)
    circuit.greedy_at.push_back(static_cast<int64_t>(smallest_from(at.level).heads.size()));
}

Agreement check_estimates(CircuitCandidates& candidates, const std::vector<size_t>& order,
                          const std::vector<double>& scores) {
  const std::vector<size_t> best = first_of(order, kAgreementParts);
  std::vector<double> estimates;
  for (const size_t n : best) estimates.push_back(scores[n]);
  return compare_scores(estimates, candidates.measure(best));
}

}  // namespace

Circuit find_circuit(const Transformer& model, const Task& task, const CircuitSettings& settings,
                     Sweep& sweep) {
  const bool heads = settings.level == CircuitLevel::kHead;
  AblationRunner runner(model, task, settings.ablation, sweep.ranks());
  const std::unique_ptr<CircuitCandidates> candidates =
      settings.level == CircuitLevel::kGraphEdge ? make_graph_candidates(model, task, runner, settings, sweep)
                                                 : make_part_candidates(model, runner, settings, sweep);
  // 0. whether there is anything to find, before all that takes time
  std::vector<size_t> every(candidates->count());
  std::iota(every.begin(), every.end(), size_t{0});
  check_range(candidates->run_without(every), runner.clean(), sweep.scope);
  // 1. every candidate's score
  std::vector<double> scores = candidates->score();
  share_first(sweep.ranks(), scores);  // one order for all ranks
  // 2. the order and its curve
  const KeepOrdered keep = [&](const OrderedCurve& ordered, const std::vector<int64_t>& counts) {
    return candidates->keep(ordered, counts);
  };
  OrderedCurve chosen = choose_order(scores, keep, runner.clean(), settings);
  Circuit circuit;
  circuit.level = settings.level;
  circuit.by_size = chosen.by_size;
  circuit.curve = std::move(chosen.curve);
  circuit.corrupt = runner.corrupt();
  circuit.candidates = static_cast<int64_t>(scores.size());
  // 3. what the rest can do alone
  const int64_t size = circuit.curve.at_threshold;
  const std::vector<size_t> kept = first_of(chosen.order, static_cast<size_t>(size));
  const PromptMetrics rest = candidates->run_without(kept);
  circuit.rest_alone = faithfulness_of(rest, circuit.curve.none, circuit.curve.all);
  circuit.rest_interval = faithfulness_interval(rest, circuit.curve.none, circuit.curve.all, settings.seed);
  // 4. what its heads do, whether it can be smaller, whether its estimates are right
  const std::vector<HeadPlace> used = candidates->heads_of(kept);
  circuit.heads_at_threshold = static_cast<int64_t>(used.size());
  if (!heads) circuit.edges_at_threshold = size;
  circuit.roles = describe_heads(model, task, runner, used);
  if (heads && settings.greedy)
    add_greedy(runner, candidates->heads_of(chosen.order), settings.threshold, circuit);
  if (settings.agreement && settings.method != CircuitMethod::kExact)
    circuit.agreement = check_estimates(*candidates, chosen.order, scores);
  candidates->list(heads ? chosen.order : kept, scores, circuit);
  return circuit;
}

std::vector<size_t> order_by_score(const std::vector<double>& scores) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  return order;
}

OrderedCurve choose_order(const std::vector<double>& scores, const KeepOrdered& keep,
                          const PromptMetrics& all, const CircuitSettings& settings) {
  const auto keep_of = [&](const OrderedCurve& ordered) -> KeepFirst {
    return [&keep, &ordered](const std::vector<int64_t>& counts) { return keep(ordered, counts); };
  };
  const auto measure = [&](const std::vector<double>& keys, bool by_size) {
    OrderedCurve ordered{.order = order_by_score(keys), .curve = {}, .by_size = by_size};
    ordered.curve =
        measure_curve(keep_of(ordered), static_cast<int64_t>(scores.size()), all, settings.threshold);
    return ordered;
  };
  OrderedCurve chosen = measure(scores, false);
  if (settings.level != CircuitLevel::kHead) {
    std::vector<double> sizes;
    for (const double score : scores) sizes.push_back(std::abs(score));
    OrderedCurve by_size = measure(sizes, true);
    if (by_size.curve.at_threshold < chosen.curve.at_threshold) chosen = std::move(by_size);
  }
  finish_curve(chosen.curve, keep_of(chosen), settings.threshold, settings.seed);
  return chosen;
}

Agreement compare_scores(const std::vector<double>& estimates, const std::vector<double>& exact) {
  const double n = static_cast<double>(estimates.size());
  const double mean_a = std::accumulate(estimates.begin(), estimates.end(), 0.0) / n;
  const double mean_b = std::accumulate(exact.begin(), exact.end(), 0.0) / n;
  double ab = 0, aa = 0, bb = 0, largest = 0;
  for (size_t i = 0; i < estimates.size(); ++i) {
    const double a = estimates[i] - mean_a, b = exact[i] - mean_b;
    ab += a * b, aa += a * a, bb += b * b;
    largest = std::max(largest, std::abs(estimates[i] - exact[i]));
  }
  return {static_cast<int64_t>(estimates.size()), aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0, largest};
}

double Circuit::faithfulness_at_threshold() const {
  for (const CurvePoint& point : curve.points) {
    if (point.count == curve.at_threshold) return point.faithfulness;
  }
  return 1;
}

std::vector<std::string> Circuit::names() const {
  std::vector<std::string> names;
  for (const Part& part : order) names.push_back(to_string(part));
  for (const GraphEdge& edge : edges) names.push_back(graph->edge_name(edge));
  return names;
}

std::vector<HeadPlace> Circuit::heads() const {
  std::vector<HeadPlace> places;
  for (const HeadRole& role : roles) places.push_back(role.head);
  return places;
}

const char* level_name(CircuitLevel level) {
  return level == CircuitLevel::kHead            ? "head"
         : level == CircuitLevel::kAttentionEdge ? "attention-edge"
                                                 : "graph-edge";
}

const char* method_name(CircuitMethod method) {
  return method == CircuitMethod::kExact ? "exact" : method == CircuitMethod::kAttribution ? "eap" : "eap-ig";
}

}  // namespace openwork
