// What `heads` is asked for: which heads, on which prompts, and how the figure looks.
#pragma once
#include <string>
#include <vector>

#include "cli/common.h"
#include "cli/figure_options.h"

namespace openwork {

struct HeadsOptions {
  CommonOptions common;
  FigureOptions figure;
  std::string preset;            // "", sample, task, prompt
  std::string order;             // layer, importance
  std::string layers, heads;     // as analyze/heads/head_selection.h reads them; empty: all
  std::string blank;             // show or leave-out; empty: by the order
  std::string shade = "sqrt";    // or linear
  std::string scale = "shared";  // or head
  double scale_high = 0;         // 0: the largest cell
  std::string task, circuit, ablation = "mean";
  double threshold = 0.9;
  int64_t top = 0, columns = 0;  // 0: all; what fits
  int64_t from = -1, to = -1;    // an edge to look at
  int64_t frames = -1;           // cells to frame; -1: the preset's number
};

void add_heads_options(CLI::App& verb, HeadsOptions& options);

// A preset is a set of defaults; what does not fit together is said before any model is opened. Takes the
// prompt off the end of `names`; with a task there is none.
GivenPrompts settle_heads_options(HeadsOptions& options, std::vector<std::string>& names);

}  // namespace openwork
