// What `heads` is asked for: which heads, on which prompts, and how the figure looks.
#pragma once
#include <string>
#include <vector>

#include "analyze/heads/heads_request.h"
#include "shell/common.h"
#include "shell/figure_options.h"

namespace openwork {

struct HeadsOptions : HeadsRequest {
  CommonOptions common;
  FigureOptions figure;
  std::string shade = "sqrt";    // or linear
  std::string scale = "shared";  // or head
  double scale_high = 0;         // 0: the largest cell
  std::string task, circuit, ablation = "mean";
  double threshold = 0.9;
  int64_t columns = 0;  // 0: what fits
};

void add_heads_options(CLI::App& verb, HeadsOptions& options);

// A preset is a set of defaults; what does not fit together is said before any model is opened. Takes the
// prompt off the end of `names`; with a task there is none.
GivenPrompts settle_heads_options(const CLI::App& verb, HeadsOptions& options,
                                  std::vector<std::string>& names);

}  // namespace openwork
