// What finds circuits: candidates known by their index, which are heads, attention edges or graph edges, and
// what the finder (circuit.cpp) asks of them. Only the files that find circuits and their tests include this.
#pragma once
#include <functional>
#include <memory>
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

class CircuitCandidates {
 public:
  virtual ~CircuitCandidates() = default;

  virtual size_t count() const = 0;
  virtual std::vector<double> score() = 0;                                    // all, by the method asked for
  virtual std::vector<double> measure(const std::vector<size_t>& which) = 0;  // exact effects
  virtual std::vector<PromptMetrics> keep(const OrderedCurve& ordered,
                                          const std::vector<int64_t>& counts) = 0;
  virtual PromptMetrics run_without(const std::vector<size_t>& which) = 0;  // these replaced, nothing else
  virtual std::vector<HeadPlace> heads_of(const std::vector<size_t>& which) const = 0;  // as they first come
  // Into `order` or `edges`; `scores` are all candidates' scores.
  virtual void list(const std::vector<size_t>& which, const std::vector<double>& scores,
                    Circuit& circuit) const = 0;
};

// Heads or attention edges, ablated by the runner; graph edges, patched along the graph. Both keep references
// to all that they are given.
std::unique_ptr<CircuitCandidates> make_part_candidates(const Transformer& model, AblationRunner& runner,
                                                        const CircuitSettings& settings, Sweep& sweep);
std::unique_ptr<CircuitCandidates> make_graph_candidates(const Transformer& model, const Task& task,
                                                         AblationRunner& runner,
                                                         const CircuitSettings& settings, Sweep& sweep);

// The candidates by signed score or, edges alone, by its size: whichever reaches the threshold with fewer.
// Neither is the better one everywhere: what lowers the metric is best left out where scores are right, but
// estimates of opposite sign often belong together and go wrong when one half is kept.
OrderedCurve choose_order(const std::vector<double>& scores, const KeepOrdered& keep,
                          const PromptMetrics& all, const CircuitSettings& settings);

// Drops from `heads`, again and again, the one whose loss leaves the most, as long as `level` holds.
SpareCircuit drop_spare_heads(AblationRunner& runner, std::vector<HeadPlace> heads, const CircuitCurve& curve,
                              double level);

// How far estimates and exact effects of the same parts agree.
Agreement compare_scores(const std::vector<double>& estimates, const std::vector<double>& exact);
inline constexpr size_t kAgreementParts = 100;

}  // namespace openwork
