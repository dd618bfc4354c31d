// What the figure verbs share: models and a prompt on one command line, where the figure goes.
#pragma once
#include <string>
#include <vector>

#include "shell/common.h"
#include "shell/prompt_source.h"

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

}  // namespace openwork
