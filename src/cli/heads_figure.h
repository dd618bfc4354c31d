// What `heads` draws, apart from the command line: which heads of a model, in which order, on which prompts,
// and the figure of several models side by side.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cli/collect_heads.h"
#include "cli/figure_options.h"
#include "cli/task_heads.h"

namespace openwork {

struct HeadsOptions {
  CommonOptions common;
  FigureOptions figure;
  std::string preset;               // "", sample, task, prompt
  std::string order;                // layer, importance
  std::string layers, heads;        // as head_selection.h reads them; empty: all
  std::string blank = "leave-out";  // or show
  std::string shade = "sqrt";       // or linear
  std::string scale = "shared";     // or head
  double scale_high = 0;            // 0: the largest cell
  std::string task, circuit, ablation = "mean";
  double threshold = 0.9;
  int64_t top = 0, columns = 0;  // 0: all; what fits
  int64_t from = -1, to = -1;    // an edge to look at
  int64_t frames = -1;           // cells to frame; -1: the preset's number
};

// Everything the figure and the JSON say about one model.
struct ModelHeads {
  std::string name;
  int64_t layers = 0, heads = 0;  // heads per layer
  int64_t tokens = 0, prompts = 0;
  bool gated = false;
  std::string subtitle, device;
  std::vector<std::string> marks;  // tokens of the one prompt
  std::optional<TaskHeads> task;
  CollectedHeads collected;
};

// `models` is how many share the figure.
ModelHeads look_at_heads(const HeadsOptions& options, const GivenPrompts& given, const std::string& name,
                         int64_t models);

draw::HeadGrid make_head_grid(const HeadsOptions& options, const std::vector<ModelHeads>& models);

// "39 of 64 heads; 25 blank, left out": the line under a block.
std::string describe_block(const HeadsOptions& options, const ModelHeads& model);

}  // namespace openwork
