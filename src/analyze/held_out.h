// Measuring a model on held-out text: its loss on blocks, and which of its attention edges are kept there, in
// all, by head, by row, and on prompts. train/evaluation.h has the record.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model/transformer.h"
#include "text/documents.h"
#include "text/tokenizer.h"
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

// Files as blocks of a model's own tokens, of `context` tokens (0: the model's, at most 1024), `blocks` at
// most (0: all). Fails where the model's context is shorter, or the tokenizer is another model's; `name` is
// the model's. A null tokenizer: files are token shards.
TokenBlocks read_held_out(const std::vector<std::string>& files, const Tokenizer* tokenizer,
                          int32_t end_of_text, const ModelConfig& config, const std::string& name,
                          int64_t context, int64_t blocks);

}  // namespace openwork
