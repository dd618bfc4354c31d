// Heads that do the same: Pearson correlations between patterns, gathered layer by layer over many prompts,
// and the groups they form. Patterns themselves are not kept: a prompt's cells (all of rows i >= 1 where they
// fit into kCellsPerPrompt, else evenly spaced whole rows) are summed into a heads x heads table and dropped.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "analyze/heads/head_records.h"

namespace openwork {

inline constexpr int64_t kCellsPerPrompt = 16384;
inline constexpr double kRedundancyLevel = 0.9;

// The rows of a prompt that are compared: all from 1 on, or evenly spaced ones whose keys fit into `cells`.
std::vector<int64_t> choose_rows(int64_t tokens, int64_t cells = kCellsPerPrompt);

class PatternCorrelation {
 public:
  explicit PatternCorrelation(int64_t heads);  // of the whole model

  void begin_prompt(int64_t tokens);
  // One head's pattern [tokens, tokens]; heads may be added from several threads, each once per prompt.
  void add_head(int64_t head, const float* pattern);
  void end_prompt();

  // [heads * heads], 0 where one of the two never varies.
  std::vector<double> correlations() const;

 private:
  int64_t heads_, tokens_ = 0;
  double count_ = 0;
  std::vector<int64_t> rows_;
  at::Tensor cells_;     // [heads, cells] of the prompt at hand
  at::Tensor sums_;      // [heads], double
  at::Tensor products_;  // [heads, heads], double
};

// Groups in which every two heads correlate at `level` or above: the most alike are joined first, and a group
// takes another only where all pairs between them reach the level. Blank heads belong to none.
Redundancy group_heads(const std::vector<double>& correlations, const std::vector<bool>& blank, double level);

}  // namespace openwork
