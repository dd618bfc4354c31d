// Circuits (docs/method.md, 4): the parts of a model that a task needs. Parts are heads, attention edges
// (head, query, key) or graph edges (source to destination). They are scored, by exact effects or by
// attribution, ordered, and kept from the best on while all others are ablated; the circuit is the smallest
// set that reaches the threshold.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "analyze/circuits/ablation.h"
#include "analyze/circuits/circuit_curve.h"
#include "analyze/circuits/edge_graph.h"
#include "analyze/circuits/head_roles.h"
#include "analyze/circuits/sweep.h"

namespace openwork {

enum class CircuitLevel { kHead, kAttentionEdge, kGraphEdge };
enum class CircuitMethod { kExact, kAttribution, kIntegrated };
inline constexpr int64_t kIntegrationSteps = 5;

struct CircuitSettings {
  CircuitLevel level = CircuitLevel::kHead;
  CircuitMethod method = CircuitMethod::kExact;
  AblationKind ablation = AblationKind::kMean;
  double threshold = 0.9;
  bool greedy = false;     // heads: then drop whatever the circuit can spare, one by one
  bool agreement = false;  // attribution: measure the best parts exactly too, and say how far the two agree
  uint64_t seed = 0;
};

// How attribution compares with exact effects on the parts it ranks highest.
struct Agreement {
  int64_t parts = 0;
  double correlation = 0;  // Pearson's
  double largest_error = 0;
};

// A circuit of heads after dropping what it can spare.
struct SpareCircuit {
  std::vector<HeadPlace> heads;
  double faithfulness = 0;
};

struct Circuit {
  CircuitLevel level = CircuitLevel::kHead;
  std::vector<Part> order;       // heads: all of them; attention edges: those of the circuit; best first
  std::vector<GraphEdge> edges;  // graph edges: those of the circuit, best first
  std::vector<double> scores;    // of these, as many
  bool by_size = false;          // ordered by size of score, not by signed score: edges, where it needs fewer
  int64_t candidates = 0;
  CircuitCurve curve;
  PromptMetrics corrupt;
  int64_t heads_at_threshold = 0;
  std::optional<int64_t> edges_at_threshold;  // of circuits of edges
  double rest_alone = 0;                      // completeness: the faithfulness of everything but the circuit
  Interval rest_interval;
  std::vector<HeadRole> roles;         // of the circuit's heads, in its order
  std::optional<SpareCircuit> greedy;  // where asked for
  std::vector<int64_t> greedy_at;      // how many heads are left so at each of kLevels
  std::optional<Agreement> agreement;
  std::optional<EdgeGraph> graph;   // graph edges: what their numbers mean
  std::vector<double> edge_scores;  // of all graph edges, in the order of graph->edges()

  double faithfulness_at_threshold() const;
  std::vector<std::string> names() const;  // of `order` or `edges`
  std::vector<HeadPlace> heads() const;    // those of the circuit, as in `roles`
};

Circuit find_circuit(const Transformer& model, const Task& task, const CircuitSettings& settings,
                     Sweep& sweep);

// How faithful these heads are with all others ablated, and all others with these ablated.
struct NamedCircuit {
  double faithfulness = 0, rest_alone = 0;
  Interval interval, rest_interval;
};
NamedCircuit evaluate_heads(AblationRunner& runner, const std::vector<HeadPlace>& heads, uint64_t seed);

const char* level_name(CircuitLevel level);     // head, attention-edge, graph-edge
const char* method_name(CircuitMethod method);  // exact, eap, eap-ig

}  // namespace openwork
