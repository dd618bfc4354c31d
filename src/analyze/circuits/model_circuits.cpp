#include "analyze/circuits/model_circuits.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace openwork {
namespace {

// A number of each seed's circuit.
std::vector<double> collect(const ModelCircuits& model, const std::function<int64_t(const Circuit&)>& count) {
  std::vector<double> counts;
  for (const Circuit& circuit : model.circuits) counts.push_back(static_cast<double>(count(circuit)));
  return counts;
}

bool is_greedy(const ModelCircuits& model) {
  return std::all_of(model.circuits.begin(), model.circuits.end(),
                     [](const Circuit& circuit) { return circuit.greedy.has_value(); });
}

ModelRatio compare_two(const ModelCircuits& dense, const ModelCircuits& sparse,
                       const CircuitSettings& settings) {
  ModelRatio result{.dense = dense.name, .sparse = sparse.name, .sizes = {}, .greedy = {}, .greedy_at = {}};
  result.sizes = compare_sizes(dense.curves(), sparse.curves(), settings.threshold, settings.seed);
  if (!is_greedy(dense) || !is_greedy(sparse)) return result;
  const auto ratio = [&](const std::function<int64_t(const Circuit&)>& count) {
    return compare_counts(collect(dense, count), collect(sparse, count), settings.seed);
  };
  result.greedy =
      ratio([](const Circuit& circuit) { return static_cast<int64_t>(circuit.greedy->heads.size()); });
  for (size_t n = 0; n < kLevels.size(); ++n)
    result.greedy_at.push_back(ratio([n](const Circuit& circuit) { return circuit.greedy_at[n]; }));
  return result;
}

}  // namespace

std::vector<CircuitCurve> ModelCircuits::curves() const {
  std::vector<CircuitCurve> curves;
  for (const Circuit& circuit : circuits) curves.push_back(circuit.curve);
  return curves;
}

ModelCircuits find_circuits(const Transformer& model, const std::string& name, const std::vector<Task>& tasks,
                            const CircuitRequest& request, Sweep& sweep) {
  ModelCircuits result;
  result.name = name;
  result.layers = model.config().layers, result.heads = model.config().heads;
  for (const Task& task : tasks) {
    result.seeds.push_back(request.settings.seed + result.seeds.size());
    sweep.scope = fmt::format("{} seed {}: ", name, result.seeds.back());
    result.circuits.push_back(find_circuit(model, task, request.settings, sweep));
  }
  if (!request.named.empty()) {
    AblationRunner runner(model, tasks.front(), request.settings.ablation);
    result.named_heads = request.named;
    result.named = evaluate_heads(runner, request.named, request.settings.seed);
  }
  if (request.drawn_edges > 0)
    result.edges = edges_to_draw(model, tasks.front(), result.shown(), request.drawn_edges);
  return result;
}

std::vector<ModelRatio> compare_models(const std::vector<ModelCircuits>& models,
                                       const CircuitSettings& settings) {
  std::vector<ModelRatio> ratios;
  for (size_t dense = 0; dense < models.size(); ++dense) {
    for (size_t sparse = dense + 1; sparse < models.size(); ++sparse)
      ratios.push_back(compare_two(models[dense], models[sparse], settings));
  }
  return ratios;
}

}  // namespace openwork
