// Running a model along its graph's edges (analyze/edge_graph.h): every destination reads its own copy of the
// residual stream, in which the part of any source may be replaced.
//   scores   EAP and EAP-IG: with x_d = x + sum_s m_ds (replacement_s - clean_s), an edge's score is the
//   derivative of
//            the loss -metric by m_ds at m = 0, summed over positions, mean over prompts: positive helps
//   exact    the change of the loss when that one edge alone is replaced (path patching)
//   run      the metric when any set of edges is replaced, everything downstream recomputed
// Needs norms before blocks, as all architectures but OLMo-2 have them; where heads share keys and values,
// each head reads its own copy of them.
#pragma once
#include <functional>
#include <vector>

#include "analyze/ablation.h"
#include "analyze/edge_graph.h"

namespace openwork {

class EdgeRunner {
 public:
  // The runner holds the clean run and says by what sources are replaced; it must outlive this.
  EdgeRunner(const Transformer& model, const Task& task, AblationRunner& runner);

  const EdgeGraph& graph() const { return graph_; }

  // [destinations, sources], double. One step is EAP (the clean run); 5 steps are EAP-IG, whose token
  // embeddings are corrupt + k/5 (clean - corrupt), k = 0 .. 4.
  Tensor score_edges(int64_t steps);

  // loss(edge replaced) - loss(clean) per prompt, that is clean metric - metric. `advance` is told how many
  // are done.
  std::vector<PromptMetrics> measure_edges(const std::vector<GraphEdge>& edges,
                                           const std::function<void(size_t)>& advance = nullptr);

  // The metric with the edges of each mask [destinations, sources] (bool, true: replaced) replaced all at
  // once.
  std::vector<PromptMetrics> run(const std::vector<Tensor>& masks);

 private:
  struct Projection {
    Tensor weight;  // [H, D, d]
    Tensor bias;    // [H, 1, d], or undefined
  };
  struct SplitRun;  // the state of one pass along edges

  Projection projection(int64_t layer, HeadInput input) const;
  Tensor project(int64_t layer, HeadInput input, const Tensor& x) const;  // [S, H, P, T, D] -> [S P, H, T, d]
  Tensor run_split(SplitRun& run, const TaskMetricReader& reader) const;
  Tensor run_heads(SplitRun& run, int64_t layer) const;
  Tensor source_values(bool clean, int64_t first, int64_t count);
  void load_deltas();
  Tensor delta_of(int64_t source) const { return deltas_[source]; }
  Tensor patch_head(int64_t destination, const Tensor& deltas);
  Tensor patch_mlp(int64_t layer, const Tensor& deltas);
  int64_t pass_size() const;

  const Transformer& model_;
  const Task& task_;
  AblationRunner& runner_;
  EdgeGraph graph_;
  std::vector<Projection> projections_;  // [layer * 3 + input]
  Tensor deltas_;                        // [sources, P, T, D]: replacement - clean
  Tensor replacements_;                  // [sources, P or 1, T, D]
};

}  // namespace openwork
