// Prompts for verbs that take several models: the last positional, or --prompts FILE (`sample`: the ones that
// come with the program), --tokens or --tokens-file. Texts are tokenised by each model's own tokenizer.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/common.h"
#include "model/config.h"
#include "text/tokenizer.h"

namespace openwork {

struct PromptSourceOptions {
  std::string prompts, tokens, tokens_file;
};

void add_prompt_source_options(CLI::App& verb, PromptSourceOptions& options);

// Texts, or a reason to ask read_prompts for ids.
struct GivenPrompts {
  std::vector<std::string> texts;
  std::string tokens, tokens_file;
  nlohmann::json description;  // for the protocol: file and hash, or the text
};

// Takes the prompt off the end of `positionals` unless an option gives it; what is left are models.
GivenPrompts take_prompts(std::vector<std::string>& positionals, const PromptSourceOptions& options);

struct TokenPrompts {
  std::vector<std::vector<int64_t>> ids;
  std::optional<Tokenizer> tokenizer;
  std::vector<int64_t> beginning;  // tokens that stand before each text
};
TokenPrompts tokenise_prompts(const GivenPrompts& given, const std::string& model, const ModelConfig& config,
                              const CommonOptions& common);

// Ids that random prompts may be drawn from: those with a text, special tokens left out. Empty: no tokenizer.
std::vector<int64_t> ordinary_tokens(const std::optional<Tokenizer>& tokenizer, int64_t vocabulary);

}  // namespace openwork
