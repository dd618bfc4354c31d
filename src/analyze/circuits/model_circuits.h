// A model's circuits for a task drawn once or several times, and how the circuits of several models compare:
// what `circuit`, `compare` and whoever else wants circuits call.
//   ModelCircuits base = find_circuits(model, "openwork-8m", tasks, {}, sweep);
//   std::vector<ModelRatio> ratios = compare_models({base, control, sparse}, settings);
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "analyze/circuits/circuit.h"
#include "analyze/circuits/curve_sizes.h"
#include "analyze/circuits/drawn_edges.h"

namespace openwork {

struct CircuitRequest {
  CircuitSettings settings;
  std::vector<HeadPlace> named = {};  // also how faithful these are
  size_t drawn_edges = 0;             // the most to find for a drawing; 0: none is wanted
};

struct ModelCircuits {
  std::string name;
  int64_t layers = 0, heads = 0;  // of the model: heads per layer
  std::vector<uint64_t> seeds;    // of the tasks
  std::vector<Circuit> circuits;  // one per task; the first is the one shown
  std::vector<HeadPlace> named_heads;
  std::optional<NamedCircuit> named;  // of the first task
  std::vector<DrawnEdge> edges;       // likewise

  const Circuit& shown() const { return circuits.front(); }
  std::vector<CircuitCurve> curves() const;  // one per task
};

// `tasks` is one task drawn from request.settings.seed and the seeds after it, at least once.
ModelCircuits find_circuits(const Transformer& model, const std::string& name, const std::vector<Task>& tasks,
                            const CircuitRequest& request, Sweep& sweep);

// How many times fewer parts `sparse` needs than `dense`.
struct ModelRatio {
  std::string dense, sparse;
  CurveComparison sizes;
  std::optional<SeedRatio> greedy;   // after dropping spare heads, where both did; at the threshold
  std::vector<SeedRatio> greedy_at;  // and at each of kLevels
};

// Every model against every later one: base and control, base and sparse, control and sparse.
std::vector<ModelRatio> compare_models(const std::vector<ModelCircuits>& models,
                                       const CircuitSettings& settings);

}  // namespace openwork
