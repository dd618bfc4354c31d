// What the figure verbs share: models and a prompt on one command line, where the figure goes, and the
// protocol line every figure carries.
#pragma once
#include <string>
#include <vector>

#include "cli/common.h"
#include "cli/open.h"
#include "cli/prompt_source.h"

namespace openwork {

// Where a figure goes.
struct FigureFile {
  std::string out;
  double dpi = 150;
};
void add_figure_file(CLI::App& verb, FigureFile& file);

struct FigureOptions : FigureFile {
  std::vector<std::string> words;  // MODEL... and, last, PROMPT unless tokens are given otherwise
  PromptSourceOptions source;
};

// `out` is the verb's default file name.
void add_figure_options(CLI::App& verb, FigureOptions& options, const std::string& out);

// Refuses an output that cannot be written or is no figure, before any work is done.
void check_figure_output(const FigureFile& file);

// What a model reads: the prompts in its own tokens, all of one length.
Prompts open_prompts(const GivenPrompts& given, const std::string& model, const ModelConfig& config,
                     const CommonOptions& common);

// Tokens of a prompt as axes show them.
std::vector<std::string> mark_tokens(const Prompts& prompts);

// A model as a figure names it: the folder's or file's own name where a path was given.
std::string short_name(const std::string& model);

// "openwork 0.1.0; openwork-8m 3f2a91c04d5e; cpu fp32, bos auto, seed 0": the line under a figure.
std::string describe_protocol(const nlohmann::json& protocol);

// The prompt in a few words, for a subtitle; "24 prompts" where there are several.
std::string describe_prompts(const GivenPrompts& given, const Prompts& prompts);

}  // namespace openwork
