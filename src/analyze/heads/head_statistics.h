// Every head's statistics on a set of prompts (docs/method.md, 3), one layer of one prompt at a time: a
// pattern is measured on all cores where the pass makes it, and dropped. Induction and duplicate-token scores
// come from prompts of random tokens repeated once.
//   ModelStatistics statistics = measure_heads(model, prompts, {.seed = 1});
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "analyze/heads/head_interaction.h"
#include "analyze/heads/head_records.h"
#include "analyze/heads/redundancy.h"
#include "model/transformer.h"
#include "text/tokenizer.h"

namespace openwork {

struct StatisticsOptions {
  uint64_t seed = 0;                      // of random tokens and of the bootstrap
  std::vector<int64_t> beginning = {};    // tokens that stand before the random ones
  std::vector<int64_t> random_from = {};  // ids that random tokens are drawn from; empty: all of them
  int64_t repeat_length = 50;             // S, at most what the context holds twice
  int64_t repeat_prompts = 8;
  double redundancy_level = kRedundancyLevel;
  double interaction_level = kInteractionLevel;
  bool interactions = true;  // the slowest part: work grows with the square of the heads
};

// Prompts of one token have no row i >= 1 and are refused. `advance` is called after each prompt.
ModelStatistics measure_heads(const Transformer& model, const std::vector<std::vector<int64_t>>& prompts,
                              const StatisticsOptions& options,
                              const std::function<void()>& advance = nullptr);

// `beginning`, then `length` random tokens twice; distinct tokens where there are enough to draw from.
std::vector<int64_t> make_repeated_prompt(const StatisticsOptions& options, int64_t vocabulary,
                                          int64_t length, int64_t index);

// Ids that random prompts may be drawn from: those with a text, special tokens left out.
std::vector<int64_t> ordinary_tokens(const Tokenizer& tokenizer, int64_t vocabulary);

}  // namespace openwork
