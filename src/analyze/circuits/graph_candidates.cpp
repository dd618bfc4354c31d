// Circuits of graph edges: patched along the graph, all of a set at once for a curve, one by one for exact
// effects.
#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "analyze/circuits/circuit_parts.h"
#include "analyze/circuits/edge_runner.h"
#include "base/progress.h"

namespace openwork {
namespace {

class GraphCandidates : public CircuitCandidates {
 public:
  GraphCandidates(const Transformer& model, const Task& task, AblationRunner& runner,
                  const CircuitSettings& settings, Sweep& sweep)
      : settings_(settings), sweep_(sweep), runner_(model, task, runner), edges_(runner_.graph().edges()) {}

  size_t count() const override { return edges_.size(); }

  std::vector<double> score() override {
    if (settings_.method == CircuitMethod::kExact) {
      std::vector<size_t> all(edges_.size());
      std::iota(all.begin(), all.end(), size_t{0});
      return measure(all);
    }
    const Tensor by_place =
        runner_.score_edges(steps_of(settings_.method)).contiguous();  // [destinations, sources]
    std::vector<double> scores;
    for (const GraphEdge& edge : edges_)
      scores.push_back(by_place.data_ptr<double>()[edge.destination * graph().sources() + edge.source]);
    return scores;
  }

  // Those the sweep knows are taken from it.
  std::vector<double> measure(const std::vector<size_t>& which) override {
    std::vector<double> effects(which.size());
    std::vector<size_t> open;
    for (size_t n = 0; n < which.size(); ++n) {
      const PromptMetrics* known = sweep_.find(graph().edge_name(edges_[which[n]]));
      if (known)
        effects[n] = mean_of(*known);
      else
        open.push_back(n);
    }
    Progress progress(sweep_.scope + "edges", which.size());
    progress.advance(which.size() - open.size());
    constexpr size_t kPerRound = 256;
    for (size_t first = 0; first < open.size(); first += kPerRound) {
      const size_t count = std::min(kPerRound, open.size() - first);
      std::vector<GraphEdge> round;
      for (size_t n = 0; n < count; ++n) round.push_back(edges_[which[open[first + n]]]);
      const std::vector<PromptMetrics> metrics =
          runner_.measure_edges(round, [&](size_t done) { progress.advance(done); });
      for (size_t n = 0; n < count; ++n) {
        effects[open[first + n]] = mean_of(metrics[n]);
        sweep_.add(graph().edge_name(round[n]), metrics[n]);
      }
      sweep_.stop_where_asked();
    }
    return effects;
  }

  std::vector<PromptMetrics> keep(const OrderedCurve& ordered, const std::vector<int64_t>& counts) override {
    Progress progress(sweep_.scope + "curve", counts.size());
    std::vector<Tensor> masks;
    for (const int64_t count : counts)
      masks.push_back(mask_of({ordered.order.begin() + count, ordered.order.end()}));
    return runner_.run(masks, [&](size_t done) { progress.advance(done); });
  }

  PromptMetrics run_without(const std::vector<size_t>& which) override {
    return runner_.run({mask_of(which)}).front();
  }

  std::vector<HeadPlace> heads_of(const std::vector<size_t>& which) const override {
    std::vector<HeadPlace> heads;
    std::set<HeadPlace> seen;
    for (const size_t n : which) {
      for (const GraphNode& node :
           {graph().source_node(edges_[n].source), graph().destination_node(edges_[n].destination)}) {
        if (node.kind == GraphNode::Kind::kHead && seen.insert(node.place).second)
          heads.push_back(node.place);
      }
    }
    return heads;
  }

  void list(const std::vector<size_t>& which, const std::vector<double>& scores,
            Circuit& circuit) const override {
    for (const size_t n : which) circuit.edges.push_back(edges_[n]), circuit.scores.push_back(scores[n]);
    circuit.graph = graph();
    circuit.edge_scores = scores;
  }

 private:
  const EdgeGraph& graph() const { return runner_.graph(); }

  // What is replaced: [destinations, sources] bool.
  Tensor mask_of(const std::vector<size_t>& which) const {
    Tensor mask = at::zeros({graph().destinations(), graph().sources()}, at::kBool);
    for (const size_t n : which)
      mask.data_ptr<bool>()[edges_[n].destination * graph().sources() + edges_[n].source] = true;
    return mask;
  }

  const CircuitSettings& settings_;
  Sweep& sweep_;
  EdgeRunner runner_;
  std::vector<GraphEdge> edges_;  // the candidates
};

}  // namespace

std::unique_ptr<CircuitCandidates> make_graph_candidates(const Transformer& model, const Task& task,
                                                         AblationRunner& runner,
                                                         const CircuitSettings& settings, Sweep& sweep) {
  return std::make_unique<GraphCandidates>(model, task, runner, settings, sweep);
}

}  // namespace openwork
