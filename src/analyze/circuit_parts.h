// What the finders of circuits share. Only the circuit*.cpp files include this.
#pragma once
#include <algorithm>
#include <vector>

#include "analyze/circuit.h"

namespace openwork {

inline int64_t steps_of(CircuitMethod method) {
  return method == CircuitMethod::kIntegrated ? kIntegrationSteps : 1;
}

// Indices by score, largest first; ties as they come (layer, then head).
std::vector<size_t> order_by_score(const std::vector<double>& scores);

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
