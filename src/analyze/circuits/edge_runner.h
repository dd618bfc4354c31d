// Running a model along its graph's edges (analyze/circuits/edge_graph.h): every destination reads its own copy of the
// residual stream, in which the part of any source may be replaced.
//   scores   EAP and EAP-IG: with x_d = x + sum_s m_ds (replacement_s - clean_s), an edge's score is the
//   derivative of
//            the loss -metric by m_ds at m = 0, summed over positions, mean over prompts: positive helps
//   exact    the change of the loss when that one edge alone is replaced (path patching)
//   run      the metric when any set of edges is replaced, everything downstream recomputed
// Where heads share keys and values, each head reads its own copy of them. Where a norm follows attention
// (OLMo-2), a head's part of the stream is its output under that norm with the scale of the whole layer's
// sum in the same run: parts still add up to what attention writes, and a head that writes otherwise changes
// the scale, and so the parts of its neighbours. Where queries and keys are normed over all heads, the norm
// is of the copy of the stream that the head in question sees.
#pragma once
#include <functional>
#include <vector>

#include "analyze/circuits/ablation.h"
#include "analyze/circuits/edge_graph.h"

namespace openwork {

// Outputs of a layer's heads, [..., D] with the heads along dimension `heads`, as parts of the stream: the
// same, or under the norm after attention with the scale of their sum.
Tensor norm_head_parts(const Transformer& model, int64_t layer, const Tensor& parts, int64_t heads);

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
  std::vector<PromptMetrics> run(const std::vector<Tensor>& masks,
                                 const std::function<void(size_t)>& advance = nullptr);

  // Every source's part of the stream in the clean run, [sources, P, T, D], or what replaces it, [sources,
  // P or 1, T, D].
  Tensor source_values(bool clean);

 private:
  // From the stream to the queries, keys or values of H heads (or of one).
  struct Projection {
    Tensor weight;              // [H, D, d]
    Tensor bias;                // [H, 1, d], or undefined
    Tensor norm;                // [H, 1, d], the norm's weight; undefined where there is none
    Tensor all_rows, all_bias;  // [D, n], [n]: all that such a norm takes in

    Projection of_head(int64_t head) const;
  };
  struct SplitRun;  // the state of one pass along edges

  Projection projection(int64_t layer, HeadInput input) const;
  // [..., H or 1, n, D] -> [..., H or 1, n, d], positions not yet turned in
  Tensor apply_projection(const Projection& projection, const Tensor& x) const;
  Tensor project(int64_t layer, HeadInput input, const Tensor& x) const;  // [S, H, P, T, D] -> [S P, H, T, d]
  Tensor read_stream(int64_t layer, const Tensor& x) const;               // normed, where norms come first
  Tensor run_split(SplitRun& run, const TaskMetricReader& reader) const;
  Tensor run_heads(SplitRun& run, int64_t layer) const;
  void load_deltas();
  Tensor patch_head(int64_t destination, const Tensor& deltas);
  Tensor patch_mlp(int64_t layer, const Tensor& deltas);
  Tensor patch_destination(int64_t destination, const std::vector<int64_t>& sources);
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
