// From options to prompts: a text on the command line, --prompts FILE (`sample`: the ones that come with the
// program), --tokens or --tokens-file. Texts are tokenised by each model's own tokenizer.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "analyze/prompts.h"
#include "shell/common.h"

namespace openwork {

struct PromptSourceOptions {
  std::string prompts, tokens, tokens_file;

  std::string option() const;  // the one that gives the prompts, "--prompts"; empty where none does
};

void add_token_options(CLI::App& verb, PromptSourceOptions& options);          // without --prompts
void add_prompt_source_options(CLI::App& verb, PromptSourceOptions& options);  // all three

// Takes the prompt off the end of `positionals` unless an option gives it; what is left are models.
GivenPrompts take_prompts(std::vector<std::string>& positionals, const PromptSourceOptions& options);

// For a verb whose PROMPT is an argument of its own: exactly one of it and the token options.
GivenPrompts take_prompt(const std::optional<std::string>& text, const PromptSourceOptions& options);

// The prompts in a model's tokens: its tokenizer's, after what --bos says.
TokenPrompts tokenise_prompts(const GivenPrompts& given, const std::string& model, const ModelConfig& config,
                              const CommonOptions& common);

}  // namespace openwork
