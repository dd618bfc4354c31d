// Held-out text and how much of it: what eval and prune measure on.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "analyze/held_out.h"
#include "shell/common.h"

namespace openwork {

struct HeldOutText {
  std::vector<std::string> data;    // files
  int64_t context = 0, blocks = 0;  // tokens per block (0: the model's, at most 1024), most blocks (0: all)
};

void add_block_options(CLI::App& verb, HeldOutText& options);  // --context, --blocks

// The tokenizer of the model `name`; where all data are token shards it may have none.
std::optional<Tokenizer> open_text_tokenizer(const HeldOutText& options, const std::string& name);

// The text as blocks of this model's own tokens.
TokenBlocks open_held_out(const HeldOutText& options, const std::string& name, const ModelConfig& config,
                          const std::optional<Tokenizer>& tokenizer);

}  // namespace openwork
