// Which heads a figure is asked for, in the words people use, and what that comes to for one model.
#pragma once
#include <optional>
#include <string>

#include "analyze/heads/model_heads.h"

namespace openwork {

struct HeadsRequest {
  std::string preset;          // "", sample, task, prompt
  std::string order;           // layer, importance
  std::string layers, heads;   // as head_selection.h reads them; empty: all
  std::string blank;           // show or leave-out; empty: by the order
  int64_t top = 0;             // 0: all
  int64_t from = -1, to = -1;  // an edge to look at
  int64_t frames = -1;         // cells to frame; -1: the preset's number
};

// Cells to frame in each model.
size_t count_frames(const HeadsRequest& request);

// For prompts of `tokens` tokens, where `models` share the figure; the preset task wants `task`. Fails on heads and
// edges that there are not.
HeadsSettings settle_heads(const HeadsRequest& request, const ModelConfig& config,
                           std::optional<TaskNeeds> task, int64_t tokens, size_t models);

}  // namespace openwork
