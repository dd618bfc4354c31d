// What the figure verbs share: models and a prompt on one command line, where the figure goes, and the protocol
// line every figure carries.
#pragma once
#include <string>
#include <vector>

#include "cli/common.h"
#include "cli/open.h"

namespace openwork {

struct FigureOptions {
  std::vector<std::string> words;  // MODEL... and, last, PROMPT unless tokens are given otherwise
  PromptOptions prompt;
  std::string out;
  double dpi = 150;
};

// `out` is the verb's default file name.
void add_figure_options(CLI::App& verb, FigureOptions& options, const std::string& out);

// The models of the command line; the last word is taken as the prompt unless the prompt comes from elsewhere
// (--tokens, --tokens-file, or `elsewhere`). Bad input where a model or a prompt is missing.
std::vector<std::string> split_models(FigureOptions& options, bool elsewhere = false);

// Refuses an output that cannot be written or is no figure, before any work is done.
void check_figure_output(const FigureOptions& options);

// Tokens of a prompt as axes show them.
std::vector<std::string> mark_tokens(const Prompts& prompts);

// "openwork 0.1.0; openwork-8m 3f2a91c04d5e; cpu fp32, bos auto, seed 0": the line under a figure.
std::string describe_protocol(const nlohmann::json& protocol);

// The prompt in a few words, for a subtitle; "24 prompts" where there are several.
std::string describe_prompts(const FigureOptions& options, const Prompts& prompts);

}  // namespace openwork
