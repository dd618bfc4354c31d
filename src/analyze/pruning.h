// Which heads a model can do without (docs/prune.md): what each head is worth, by the share of edges it keeps on a
// text, by what the text's loss rises without it, or by its effect on a task; and which are kept at a level.
//   const HeadWorths worth = measure_loss_effects(model, blocks);
//   const auto kept = choose_heads(model.config(), worth, {.by = PruneBy::kEffect, .keep = 100});
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analyze/circuits/ablation_effects.h"
#include "model/transformer.h"
#include "text/documents.h"
#include "train/evaluation.h"

namespace openwork {

enum class PruneBy { kEdges, kEffect };

using HeadWorths = std::vector<std::vector<double>>;  // [layer][head], original heads

struct PruneSettings {
  PruneBy by = PruneBy::kEdges;
  std::optional<double> below;  // heads worth less go; by edges, those that keep none go at any level
  std::optional<int64_t> keep;  // or: this many heads stay, those worth most
};

// Everything `prune` reports.
struct PruneRecord {
  std::string model, folder;
  PruneSettings settings;
  std::string effect_of;  // what an effect is on: "loss" or a task's name; empty by edges
  HeadWorths worth;
  std::vector<std::vector<int64_t>> kept;
  int64_t heads_before = 0, heads_after = 0;
  int64_t parameters_before = 0, parameters_after = 0;
  Evaluation before, after;             // on the text pruned by
  double largest_logit_difference = 0;  // between the two on its first block
};

// Fails on a level that is none: below outside [0, 1] by edges, more heads to keep than there are, both or (by
// effect) neither given, and on edges of a model without gates.
void check_settings(const PruneSettings& settings, const ModelConfig& config, const std::string& model);

// What the mean loss over the blocks, in nats per token, rises by when one head's z is 0, each head by itself; 0
// for heads that are gone. `advance` is told the number of heads done.
HeadWorths measure_loss_effects(const Transformer& model, const TokenBlocks& blocks,
                                const std::function<void(int64_t)>& advance = nullptr);

// The size of every head's effect on a task's metric, zero-ablated.
HeadWorths measure_task_effects(const Transformer& model, const Task& task);

// The heads that stay, original numbers per layer, ascending. Among equals the earlier stays.
std::vector<std::vector<int64_t>> choose_heads(const ModelConfig& config, const HeadWorths& worth,
                                               const PruneSettings& settings);

int64_t count_parameters(const Transformer& model);

// The largest |difference| of two models' logits on a block of their tokens.
double compare_logits(const Transformer& a, const Transformer& b, const TokenBlocks& blocks);

}  // namespace openwork
