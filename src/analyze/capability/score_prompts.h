// A test's prompts through a model: prompts of equal length run together, and only what is read becomes logits.
#pragma once
#include <functional>
#include <vector>

#include "analyze/capability/suite_test.h"
#include "model/transformer.h"
#include "train/ranks.h"

namespace openwork {

struct ScoreOptions {
  int64_t batch_tokens = 0;  // of a pass; 0: what suits the device. Changes no answer but by rounding
  Ranks* ranks = nullptr;    // share the passes; all have the result
  std::function<void(int64_t)> advance;  // is told the prompts done after each pass
  std::function<void()> after_pass;      // on every rank alike: may throw to end the work
};

// Scores by bin, of each prompt that has reads there in the test's order.
using BinScores = std::vector<std::vector<double>>;

BinScores score_prompts(const Transformer& model, const SuiteTest& test, const ScoreOptions& options = {});

}  // namespace openwork
