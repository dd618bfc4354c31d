#include "shell/held_out_options.h"

#include "shell/open.h"

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

TokenBlocks open_held_out(const HeldOutText& options, const std::string& name, const ModelConfig& config,
                          const Tokenizer& tokenizer) {
  return read_held_out(options.data, tokenizer, end_of_text(tokenizer, config), config, name, options.context,
                       options.blocks);
}

}  // namespace openwork
