// What the finders of circuits share. Only the circuit*.cpp files and their tests include this.
#pragma once
#include <algorithm>
#include <functional>
#include <vector>

#include "analyze/circuits/circuit.h"

namespace openwork {

inline int64_t steps_of(CircuitMethod method) {
  return method == CircuitMethod::kIntegrated ? kIntegrationSteps : 1;
}

// Indices by score, largest first; ties as they come (layer, then head).
std::vector<size_t> order_by_score(const std::vector<double>& scores);

// An order of the candidates and its curve.
struct OrderedCurve {
  std::vector<size_t> order;
  CircuitCurve curve;
  bool by_size = false;
};
// The metrics with the first `count` candidates of an order kept, for each of the counts.
using KeepOrdered = std::function<std::vector<PromptMetrics>(const OrderedCurve& ordered,
                                                             const std::vector<int64_t>& counts)>;

// The candidates by signed score or, edges alone, by its size: whichever reaches the threshold with fewer.
// Neither is the better one everywhere: what lowers the metric is best left out where scores are right, but
// estimates of opposite sign often belong together and go wrong when one half is kept.
OrderedCurve choose_order(const std::vector<double>& scores, const KeepOrdered& keep,
                          const PromptMetrics& all, const CircuitSettings& settings);

// How far estimates and exact effects of the same parts agree.
Agreement compare_scores(const std::vector<double>& estimates, const std::vector<double>& exact);
inline constexpr size_t kAgreementParts = 100;

// The first `count` of a list.
template <typename T>
std::vector<T> first_of(const std::vector<T>& list, size_t count) {
  return {list.begin(), list.begin() + static_cast<std::ptrdiff_t>(count)};
}

Circuit find_graph_circuit(const Transformer& model, const Task& task, const CircuitSettings& settings,
                           Sweep& sweep);

}  // namespace openwork
