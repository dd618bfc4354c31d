#include "shell/held_out_options.h"

#include <algorithm>

#include "shell/open.h"
#include "text/token_shard.h"

namespace openwork {

void add_block_options(CLI::App& verb, HeldOutText& options) {
  verb.add_option("--context", options.context,
                  "tokens per block (default: the model's context, at most 1024)")
      ->check(between(1, 1 << 24))
      ->type_name("N");
  verb.add_option("--blocks", options.blocks, "at most N blocks (default: all)")
      ->check(between(1, 1 << 30))
      ->type_name("N");
}

std::optional<Tokenizer> open_text_tokenizer(const HeldOutText& options, const std::string& name) {
  const bool all_tokens = std::all_of(options.data.begin(), options.data.end(), is_token_shard);
  return all_tokens ? find_tokenizer(name) : open_tokenizer(name);
}

TokenBlocks open_held_out(const HeldOutText& options, const std::string& name, const ModelConfig& config,
                          const std::optional<Tokenizer>& tokenizer) {
  const int32_t end = tokenizer ? end_of_text(*tokenizer, config) : 0;
  return read_held_out(options.data, tokenizer ? &*tokenizer : nullptr, end, config, name, options.context,
                       options.blocks);
}

}  // namespace openwork
