// Ablation (docs/method.md, 4): what a task's metric becomes when parts of a model are replaced by zero, by
// their mean over the corrupt prompts (per position) or by their value in the corrupt run. Parts are heads
// (at z), a head's query, key or value, MLPs, and single attention edges (the term A_ij v_j, nothing
// renormalised).
//   AblationRunner runner(model, task, AblationKind::kMean);
//   auto metrics = runner.run({{head_part(5, 1)}, {head_part(6, 0), mlp_part(3)}});  // [intervention][prompt]
// Exact, and quick: an intervention starts at its lowest layer from the clean run's stream, stops at the
// positions read, and many interventions share one pass. The ranks of a job share the passes: all call the
// same functions with the same arguments, and all have the same results.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "analyze/circuits/circuit_curve.h"
#include "analyze/circuits/part.h"
#include "analyze/circuits/task.h"
#include "analyze/circuits/task_metric.h"
#include "model/transformer.h"

namespace openwork {

class Ranks;

enum class AblationKind { kZero, kMean, kInterchange };
const char* ablation_name(AblationKind kind);
AblationKind parse_ablation(const std::string& name);

// Parts that are replaced together in one run.
using Intervention = std::vector<Part>;

// The clean run, and what replaces each part.
class AblationRunner {
 public:
  AblationRunner(const Transformer& model, const Task& task, AblationKind kind, Ranks* ranks = nullptr);
  ~AblationRunner();

  const PromptMetrics& clean() const { return clean_; }
  const PromptMetrics& corrupt() const { return corrupt_; }
  const ModelConfig& config() const { return model_.config(); }
  const TaskMetricReader& reader() const { return reader_; }
  int64_t tokens() const { return reader_.tokens(); }
  Ranks* ranks() const { return ranks_; }

  // The metric of each intervention on each prompt. `done` is told how many are finished, with their results,
  // after each pass: indices into `interventions` and metrics.
  using Done = std::function<void(const std::vector<size_t>&, const std::vector<PromptMetrics>&)>;
  std::vector<PromptMetrics> run(const std::vector<Intervention>& interventions, const Done& done = nullptr);

  // Attention edges of one layer that are open in any prompt, clean or corrupt: [H, T, T] bool. All causal
  // ones where the model has no gates.
  Tensor open_edges(int64_t layer);

  // What replaces an activation: [P or 1, T, ...], broadcast over prompts. Undefined for zero.
  Tensor replacement(Site site, int64_t layer);
  // The same from values of the corrupt run [P, ...] that the caller has made of recorded ones: [P or 1,
  // ...].
  Tensor make_replacement(const Tensor& corrupt) const;
  // An activation of the clean or corrupt run, [P, T, ...]; recorded on first use, for all layers.
  Tensor recorded(bool clean, Site site, int64_t layer);

 private:
  struct Batch;  // the interventions of one pass
  std::vector<Batch> make_batches(const std::vector<Intervention>& interventions) const;
  std::vector<PromptMetrics> run_batch(const Batch& batch);
  Tensor start_batch(const Batch& batch, const ForwardOptions& options);
  void add_taps(const Batch& batch, Taps& taps);
  void add_edge_taps(const std::vector<const Intervention*>& entries, int64_t layer, Taps& taps);
  Tensor replaced_terms(const Tensor& removed, int64_t layer);  // [S, P or 1, T, H, d]
  int64_t batch_size() const;
  // Heads of a layer whose replacement is what they have on every clean prompt: gates that never open, say. [H]
  const std::vector<bool>& unchanged_heads(int64_t layer);
  Intervention without_unchanged(const Intervention& intervention);

  const Transformer& model_;
  AblationKind kind_;
  Ranks* ranks_;
  TaskMetricReader reader_;
  PromptMetrics clean_, corrupt_;
  std::map<std::pair<bool, ActivationName>, Tensor> recorded_;
  std::map<ActivationName, Tensor> replacements_;
  std::map<int64_t, std::vector<bool>> unchanged_;  // by layer
};

double mean_of(const PromptMetrics& values);
PromptMetrics to_prompt_metrics(const Tensor& row);  // [P]

}  // namespace openwork
