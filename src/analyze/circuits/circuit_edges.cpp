// Circuits of graph edges, and the edges that join the heads of a circuit in a drawing.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "analyze/circuits/circuit_parts.h"
#include "analyze/circuits/edge_runner.h"
#include "base/progress.h"

namespace openwork {
namespace {

// Exact effects of graph edges, those the sweep knows taken from it.
std::vector<double> measure_graph_edges(EdgeRunner& runner, const std::vector<GraphEdge>& edges,
                                        Sweep& sweep) {
  constexpr size_t kPerRound = 256;
  std::vector<double> effects(edges.size());
  Progress progress("edges", edges.size());
  std::vector<size_t> open;
  for (size_t n = 0; n < edges.size(); ++n) {
    const PromptMetrics* known = sweep.find(runner.graph().edge_name(edges[n]));
    if (known)
      effects[n] = mean_of(*known);
    else
      open.push_back(n);
  }
  progress.advance(edges.size() - open.size());
  for (size_t first = 0; first < open.size(); first += kPerRound) {
    const size_t count = std::min(kPerRound, open.size() - first);
    std::vector<GraphEdge> round;
    for (size_t n = 0; n < count; ++n) round.push_back(edges[open[first + n]]);
    const std::vector<PromptMetrics> metrics =
        runner.measure_edges(round, [&](size_t done) { progress.advance(done); });
    for (size_t n = 0; n < count; ++n) {
      effects[open[first + n]] = mean_of(metrics[n]);
      sweep.add(runner.graph().edge_name(round[n]), metrics[n]);
    }
    sweep.stop_where_asked();
  }
  return effects;
}

// The heads that graph edges touch, in the order they first come.
std::vector<Part> heads_of_edges(const ModelConfig& config, const EdgeGraph& graph,
                                 const std::vector<GraphEdge>& edges, size_t count) {
  std::vector<Part> heads;
  std::set<Part> seen;
  const auto add = [&](int64_t layer, int64_t head) {
    if (seen.insert(head_part(layer, head)).second) heads.push_back(head_part(layer, head));
  };
  for (size_t n = 0; n < count; ++n) {
    const int64_t source = edges[n].source - 1, destination = edges[n].destination,
                  slot = graph.slot_of(destination);
    if (source >= 0 && source % (config.heads + 1) < config.heads)
      add(source / (config.heads + 1), source % (config.heads + 1));
    if (destination != graph.logits() && slot < 3 * config.heads)
      add(graph.layer_of(destination), slot % config.heads);
  }
  return heads;
}

}  // namespace

Circuit find_graph_circuit(const Transformer& model, const Task& task, const CircuitSettings& settings,
                           Sweep& sweep) {
  AblationRunner ablation(model, task, settings.ablation, sweep.ranks());
  EdgeRunner runner(model, task, ablation);
  const EdgeGraph& graph = runner.graph();
  // 1. every edge's score
  const std::vector<GraphEdge> candidates = graph.edges();
  Circuit circuit;
  circuit.edge_scores = at::zeros({graph.destinations(), graph.sources()}, at::kDouble);
  std::vector<double> scores;
  if (settings.method == CircuitMethod::kExact) {
    scores = measure_graph_edges(runner, candidates, sweep);
    for (size_t n = 0; n < candidates.size(); ++n)
      circuit.edge_scores[candidates[n].destination][candidates[n].source] = scores[n];
  } else {
    circuit.edge_scores = runner.score_edges(steps_of(settings.method)).contiguous();
    for (const GraphEdge& edge : candidates)
      scores.push_back(
          circuit.edge_scores.data_ptr<double>()[edge.destination * graph.sources() + edge.source]);
  }
  // 2. the order and its curve: masks hold what is replaced
  const auto mask_of = [&](const std::vector<size_t>& order, int64_t first, int64_t last) {
    Tensor mask = at::zeros({graph.destinations(), graph.sources()}, at::kBool);
    for (int64_t n = first; n < last; ++n) {
      const GraphEdge& edge = candidates[order[static_cast<size_t>(n)]];
      mask.data_ptr<bool>()[edge.destination * graph.sources() + edge.source] = true;
    }
    return mask;
  };
  const auto total = static_cast<int64_t>(candidates.size());
  const KeepOrdered keep = [&](const OrderedCurve& ordered, const std::vector<int64_t>& counts) {
    Progress progress("curve", counts.size());
    std::vector<Tensor> masks;
    for (const int64_t count : counts) masks.push_back(mask_of(ordered.order, count, total));
    return runner.run(masks, [&](size_t done) { progress.advance(done); });
  };
  OrderedCurve chosen = choose_order(scores, keep, ablation.clean(), settings);
  // 3. what is known of it
  std::vector<GraphEdge> order;
  for (const size_t n : chosen.order) order.push_back(candidates[n]), circuit.scores.push_back(scores[n]);
  circuit.by_size = chosen.by_size;
  circuit.curve = std::move(chosen.curve);
  circuit.corrupt = ablation.corrupt();
  circuit.candidates = total;
  // 4. what the rest can do alone
  const int64_t size = circuit.curve.at_threshold;
  const PromptMetrics rest = runner.run({mask_of(chosen.order, 0, size)}).front();
  circuit.rest_alone = faithfulness_of(rest, circuit.curve.none, circuit.curve.all);
  circuit.rest_interval = faithfulness_interval(rest, circuit.curve.none, circuit.curve.all, settings.seed);
  // 5. its heads
  circuit.edges_at_threshold = size;
  circuit.edges_kept = mask_of(chosen.order, 0, size);
  const std::vector<Part> used = heads_of_edges(model.config(), graph, order, static_cast<size_t>(size));
  circuit.heads_at_threshold = static_cast<int64_t>(used.size());
  circuit.roles = describe_heads(model, task, ablation, used);
  if (settings.agreement && settings.method != CircuitMethod::kExact) {
    const size_t compared = std::min(order.size(), kAgreementParts);
    const std::vector<GraphEdge> best(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(compared));
    circuit.agreement = compare_scores(
        {circuit.scores.begin(), circuit.scores.begin() + static_cast<std::ptrdiff_t>(compared)},
        measure_graph_edges(runner, best, sweep));
  }
  circuit.scores.resize(static_cast<size_t>(size));
  for (int64_t n = 0; n < size; ++n) circuit.order.push_back(graph.edge_name(order[static_cast<size_t>(n)]));
  return circuit;
}

std::vector<DrawnEdge> connect_heads(const Transformer& model, const Task& task,
                                     const std::vector<Part>& heads, size_t most) {
  AblationRunner ablation(model, task, AblationKind::kInterchange);
  EdgeRunner runner(model, task, ablation);
  const EdgeGraph& graph = runner.graph();
  const Tensor scores = runner.score_edges(1);
  std::map<int64_t, std::string> sources = {{0, "input"}};
  std::vector<std::pair<int64_t, std::pair<std::string, std::string>>> destinations = {
      {graph.logits(), {"logits", ""}}};
  for (const Part& head : heads) {
    sources[graph.head_source(head.layer, head.head)] = to_string(head);
    for (const HeadInput input : {HeadInput::kQuery, HeadInput::kKey, HeadInput::kValue}) {
      destinations.push_back({graph.head_destination(head.layer, input, head.head),
                              {to_string(head), std::string(1, "qkv"[static_cast<int>(input)])}});
    }
  }
  std::vector<DrawnEdge> edges;
  for (const auto& [destination, name] : destinations) {
    for (const auto& [source, from] : sources) {
      if (source >= graph.visible_sources(destination)) continue;
      edges.push_back({from, name.first, name.second, scores[destination][source].item<double>()});
    }
  }
  std::stable_sort(edges.begin(), edges.end(), [](const DrawnEdge& a, const DrawnEdge& b) {
    return std::abs(a.score) > std::abs(b.score);
  });
  if (edges.size() > most) edges.resize(most);
  return edges;
}

}  // namespace openwork
