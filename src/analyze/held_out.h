// Measuring a model on held-out text: its loss on blocks, and which of its attention edges are kept there, in
// all, by head, by row, and on prompts. train/evaluation.h has the record.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "model/transformer.h"
#include "text/documents.h"
#include "train/evaluation.h"
#include "train/ranks.h"

namespace openwork {

struct HeldOutOptions {
  uint64_t seed = 0;                          // draws the bootstrap
  std::vector<std::vector<int32_t>> prompts;  // encode_sample_prompts' tokens; none: not measured
  std::function<void(int64_t)> advance;       // is told the number of blocks done after each batch
  Ranks* ranks = nullptr;  // share the batches; all of them have the result that one process alone gives
};

Evaluation evaluate_held_out(const Transformer& model, const TokenBlocks& blocks,
                             const HeldOutOptions& options = {});

}  // namespace openwork
