// What a Tracer holds, shared by the files that carry out its parts.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analyze/trace/answer_effects.h"
#include "analyze/trace/influence.h"
#include "analyze/trace/trace.h"
#include "analyze/trace/trace_targets.h"

namespace openwork {

struct TraceState {
  TraceState(const Transformer& model, const Transcoders* transcoders, const Tensor& ids,
             TraceSettings settings);

  const Transcoders* transcoders;
  TraceSettings settings;
  FrozenRun run;
  TraceSources sources;
  LinearPass pass;
  std::vector<int64_t> targets;  // tokens of the logits
  TargetReader reader;
  std::optional<TraceGraph> graph;
  std::vector<int64_t> attributed;     // columns, in the order in which they were chosen
  std::vector<int64_t> graph_columns;  // of the graph's nodes; logit n is -1 - n
  Tensor first_effects;                // on the first target, by column: [columns], on the CPU

  std::optional<AnswerEffects> direct, total;  // on the first target, once somebody has asked

  const Tensor& effects_on_first_target();
  const AnswerEffects& answer_effects(EffectPaths paths);
  // Features or MLPs by their columns, logit n as -1 - n.
  Targets read_targets(const std::vector<int64_t>& columns) const;
};

// Phases 2 and 3: a row of effects for each logit, then for each node attributed to.
struct NodeEffects {
  EffectRows rows;             // columns are those of TraceSources
  std::vector<double> values;  // [R]: what each row sums to
  SumCheck sums;
};
NodeEffects attribute_nodes(TraceState& state, const std::function<void(int64_t, int64_t)>& advance);

// Where a sum of effects is not finite, and so one of them is not: products of weights may overflow on the way back though
// none did on the way forward. `what` says which: "effects on L3F512@7".
[[noreturn]] void refuse_effects(const std::string& what);

// Phases 4 and 5.
TraceGraph build_graph(TraceState& state, const NodeEffects& effects);

// Memory, all in bytes. What tracing takes where the prompt has `active` features in all.
int64_t trace_bytes(const ModelConfig& config, const Transcoders* transcoders, int64_t tokens, int64_t active,
                    const TraceSettings& settings);
// Nodes are chosen anew after so many; so many of them are carried back in one batch; and batches of head
// shares that are made side by side may take so much.
inline constexpr int64_t kTargetsInRound = 512;
int64_t trace_batch(const ModelConfig& config, int64_t tokens, int64_t columns, bool on_gpu);
inline constexpr int64_t kShareBatchBytes = int64_t{256} << 20;
// Shares kept on the links: where they would take more, the smallest of each link are summed.
inline constexpr int64_t kShareRecordBytes = int64_t{1} << 30;

}  // namespace openwork
