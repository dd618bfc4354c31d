#include "analyze/circuits/circuit.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "analyze/circuits/attribution.h"
#include "analyze/circuits/circuit_parts.h"
#include "analyze/circuits/share_rows.h"
#include "base/error.h"
#include "base/progress.h"

namespace openwork {
namespace {

double effect_of(const PromptMetrics& clean, const PromptMetrics& ablated) {
  return mean_of(clean) - mean_of(ablated);
}

std::vector<PromptMetrics> run_named(AblationRunner& runner, const std::string& what,
                                     const std::vector<std::string>& names,
                                     const std::vector<Intervention>& interventions, Sweep& sweep) {
  Progress progress(what, interventions.size());
  return run_sweep(runner, names, interventions, sweep, [&](size_t count) { progress.advance(count); });
}

std::vector<double> measure_parts(AblationRunner& runner, const std::vector<Part>& parts, Sweep& sweep) {
  std::vector<std::string> names;
  std::vector<Intervention> interventions;
  for (const Part& part : parts) names.push_back(to_string(part)), interventions.push_back({part});
  std::vector<double> effects;
  for (const PromptMetrics& metrics : run_named(runner, "effects", names, interventions, sweep)) {
    effects.push_back(effect_of(runner.clean(), metrics));
  }
  return effects;
}

// Edges [H, T, T] of a layer, as parts behind those already listed.
void add_edges(const Tensor& edges, int64_t layer, std::vector<Part>& parts) {
  const Tensor places = edges.nonzero().contiguous();  // [n, 3]: head, query, key
  const int64_t* row = places.data_ptr<int64_t>();
  for (int64_t n = 0; n < places.size(0); ++n, row += 3) {
    parts.push_back({Part::Kind::kEdge, static_cast<int32_t>(layer), static_cast<int32_t>(row[0]),
                     static_cast<int32_t>(row[1]), static_cast<int32_t>(row[2])});
  }
}

std::vector<Part> list_candidates(AblationRunner& runner, CircuitLevel level) {
  if (level == CircuitLevel::kHead) return all_heads(runner.config());
  std::vector<Part> parts;
  for (int64_t layer = 0; layer < runner.config().layers; ++layer)
    add_edges(runner.open_edges(layer), layer, parts);
  return parts;
}

// Edges whose gates no prompt opens. An ablated run may open them, as its streams are others than those of
// any prompt; they are no part of any circuit, so they are held closed with everything else that is not kept.
std::vector<Part> list_closed(AblationRunner& runner, CircuitLevel level) {
  std::vector<Part> parts;
  if (level == CircuitLevel::kHead || runner.config().gate == GateKind::kNone) return parts;
  const int64_t T = runner.tokens();
  const Tensor causal = at::ones({runner.config().heads, T, T}, at::kBool).tril();
  for (int64_t layer = 0; layer < runner.config().layers; ++layer) {
    add_edges(causal.logical_and(runner.open_edges(layer).logical_not()), layer, parts);
  }
  return parts;
}

std::vector<double> score_parts(const Transformer& model, AblationRunner& runner,
                                const std::vector<Part>& parts, const CircuitSettings& settings,
                                Sweep& sweep) {
  if (settings.method == CircuitMethod::kExact) return measure_parts(runner, parts, sweep);
  std::vector<double> scores;
  if (settings.level == CircuitLevel::kHead) {
    const Tensor by_head =
        attribute_heads(model, runner, settings.ablation, steps_of(settings.method));  // [L, H]
    for (const Part& part : parts) scores.push_back(by_head[part.layer][part.head].item<double>());
    return scores;
  }
  const std::vector<Tensor> by_edge =
      attribute_attention_edges(model, runner, settings.ablation, steps_of(settings.method));
  const int64_t T = runner.tokens();
  for (const Part& part : parts) {
    const Tensor& layer = by_edge[static_cast<size_t>(part.layer)];
    scores.push_back(layer.data_ptr<double>()[(part.head * T + part.query) * T + part.key]);
  }
  return scores;
}

// The heads that parts belong to, in the order they first come.
std::vector<Part> heads_of(const std::vector<Part>& parts, size_t count) {
  std::vector<Part> heads;
  std::set<Part> seen;
  for (size_t n = 0; n < count; ++n) {
    const Part head = head_part(parts[n].layer, parts[n].head);
    if (seen.insert(head).second) heads.push_back(head);
  }
  return heads;
}

// Drops from the circuit, again and again, the head whose loss leaves the most, as long as the threshold
// holds.
void drop_spare_heads(AblationRunner& runner, const std::vector<Part>& order, const CircuitSettings& settings,
                      Circuit& circuit) {
  std::vector<Part> kept(order.begin(), order.begin() + circuit.curve.at_threshold);
  const auto ablate_all_but = [&](const std::vector<Part>& heads) {
    Intervention others;
    for (const Part& part : order) {
      if (std::find(heads.begin(), heads.end(), part) == heads.end()) others.push_back(part);
    }
    return others;
  };
  circuit.greedy_faithfulness =
      faithfulness_of(runner.run({ablate_all_but(kept)}).front(), circuit.curve.none, circuit.curve.all);
  while (!kept.empty()) {
    std::vector<Intervention> trials;
    for (size_t n = 0; n < kept.size(); ++n) {
      std::vector<Part> without = kept;
      without.erase(without.begin() + static_cast<std::ptrdiff_t>(n));
      trials.push_back(ablate_all_but(without));
    }
    const std::vector<PromptMetrics> metrics = runner.run(trials);
    const auto best = std::max_element(metrics.begin(), metrics.end(),
                                       [](const auto& a, const auto& b) { return mean_of(a) < mean_of(b); });
    const double left = faithfulness_of(*best, circuit.curve.none, circuit.curve.all);
    if (left < settings.threshold) break;
    circuit.greedy_faithfulness = left;
    kept.erase(kept.begin() + (best - metrics.begin()));
  }
  for (const Part& part : kept) circuit.greedy.push_back(to_string(part));
}

// Circuits whose parts are heads or attention edges: both are ablations.
Circuit find_part_circuit(const Transformer& model, const Task& task, const CircuitSettings& settings,
                          Sweep& sweep) {
  AblationRunner runner(model, task, settings.ablation, sweep.ranks());
  // 1. candidates and their scores
  const std::vector<Part> candidates = list_candidates(runner, settings.level);
  if (candidates.empty())
    fail_input("no gate is open on these prompts", "circuit", "use --level head, or another model");
  std::vector<double> scores = score_parts(model, runner, candidates, settings, sweep);
  share_first(sweep.ranks(), scores);  // one order for all ranks
  // 2. the order and its curve
  const bool heads = settings.level == CircuitLevel::kHead;
  const std::vector<Part> closed = list_closed(runner, settings.level);
  const KeepOrdered keep = [&](const OrderedCurve& ordered, const std::vector<int64_t>& counts) {
    // Lists of edges are long: a few interventions at a time.
    const size_t round = heads ? counts.size() : 4;
    std::vector<PromptMetrics> metrics;
    for (size_t first = 0; first < counts.size(); first += round) {
      std::vector<std::string> names;
      std::vector<Intervention> interventions;
      for (size_t n = first; n < std::min(counts.size(), first + round); ++n) {
        names.push_back(fmt::format("first {}{}", counts[n], ordered.by_size ? " by size" : ""));
        Intervention others = closed;
        for (auto index = ordered.order.begin() + counts[n]; index != ordered.order.end(); ++index)
          others.push_back(candidates[*index]);
        interventions.push_back(std::move(others));
      }
      for (PromptMetrics& row : run_named(runner, "curve", names, interventions, sweep))
        metrics.push_back(std::move(row));
    }
    return metrics;
  };
  OrderedCurve chosen = choose_order(scores, keep, runner.clean(), settings);
  // 3. what is known of it
  std::vector<Part> order;
  Circuit circuit;
  for (const size_t n : chosen.order) order.push_back(candidates[n]), circuit.scores.push_back(scores[n]);
  circuit.by_size = chosen.by_size;
  circuit.curve = std::move(chosen.curve);
  circuit.corrupt = runner.corrupt();
  circuit.candidates = static_cast<int64_t>(order.size());
  // 4. what the rest can do alone
  const int64_t size = circuit.curve.at_threshold;
  const PromptMetrics rest = runner.run({Intervention(order.begin(), order.begin() + size)}).front();
  circuit.rest_alone = faithfulness_of(rest, circuit.curve.none, circuit.curve.all);
  circuit.rest_interval = faithfulness_interval(rest, circuit.curve.none, circuit.curve.all, settings.seed);
  // 5. what its heads do, and whether it can be smaller
  const std::vector<Part> used = heads_of(order, static_cast<size_t>(size));
  circuit.heads_at_threshold = static_cast<int64_t>(used.size());
  if (!heads) circuit.edges_at_threshold = size;
  circuit.roles = describe_heads(model, task, runner, used);
  if (heads && settings.greedy) drop_spare_heads(runner, order, settings, circuit);
  if (settings.agreement && settings.method != CircuitMethod::kExact) {
    const size_t compared = std::min(order.size(), kAgreementParts);
    const std::vector<Part> best(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(compared));
    circuit.agreement = compare_scores(
        {circuit.scores.begin(), circuit.scores.begin() + static_cast<std::ptrdiff_t>(compared)},
        measure_parts(runner, best, sweep));
  }
  const size_t listed = heads ? order.size() : static_cast<size_t>(size);
  circuit.scores.resize(listed);
  for (size_t n = 0; n < listed; ++n) circuit.order.push_back(to_string(order[n]));
  return circuit;
}

}  // namespace

std::vector<size_t> order_by_score(const std::vector<double>& scores) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  return order;
}

OrderedCurve choose_order(const std::vector<double>& scores, const KeepOrdered& keep,
                          const PromptMetrics& all, const CircuitSettings& settings) {
  const auto total = static_cast<int64_t>(scores.size());
  const auto trace = [&](const std::vector<double>& keys, bool by_size) {
    OrderedCurve ordered{.order = order_by_score(keys), .curve = {}, .by_size = by_size};
    const KeepFirst keep_first = [&](const std::vector<int64_t>& counts) { return keep(ordered, counts); };
    ordered.curve = trace_curve(keep_first, total, all, settings.threshold, settings.seed);
    return ordered;
  };
  OrderedCurve by_score = trace(scores, false);
  if (settings.level == CircuitLevel::kHead) return by_score;
  std::vector<double> sizes;
  for (const double score : scores) sizes.push_back(std::abs(score));
  OrderedCurve by_size = trace(sizes, true);
  return by_size.curve.at_threshold < by_score.curve.at_threshold ? by_size : by_score;
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

std::vector<Part> all_heads(const ModelConfig& config) {
  std::vector<Part> heads;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    for (int64_t head = 0; head < config.heads; ++head) heads.push_back(head_part(layer, head));
  }
  return heads;
}

const char* level_name(CircuitLevel level) {
  return level == CircuitLevel::kHead            ? "head"
         : level == CircuitLevel::kAttentionEdge ? "attention-edge"
                                                 : "graph-edge";
}

const char* method_name(CircuitMethod method) {
  return method == CircuitMethod::kExact ? "exact" : method == CircuitMethod::kAttribution ? "eap" : "eap-ig";
}

Circuit find_circuit(const Transformer& model, const Task& task, const CircuitSettings& settings,
                     Sweep& sweep) {
  return settings.level == CircuitLevel::kGraphEdge ? find_graph_circuit(model, task, settings, sweep)
                                                    : find_part_circuit(model, task, settings, sweep);
}

NamedCircuit evaluate_heads(AblationRunner& runner, const std::vector<Part>& heads, uint64_t seed) {
  const std::vector<Part> every = all_heads(runner.config());
  Intervention others;
  for (const Part& head : every) {
    if (std::find(heads.begin(), heads.end(), head) == heads.end()) others.push_back(head);
  }
  const std::vector<PromptMetrics> metrics = runner.run({others, heads, every});
  const PromptMetrics& none = metrics[2];
  NamedCircuit result;
  result.faithfulness = faithfulness_of(metrics[0], none, runner.clean());
  result.interval = faithfulness_interval(metrics[0], none, runner.clean(), seed);
  result.rest_alone = faithfulness_of(metrics[1], none, runner.clean());
  result.rest_interval = faithfulness_interval(metrics[1], none, runner.clean(), seed);
  return result;
}

}  // namespace openwork
