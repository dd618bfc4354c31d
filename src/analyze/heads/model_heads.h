// One model's heads on prompts of one length: each chosen head's pattern averaged into cells, blank ones told
// apart, the rest in the order asked for, the strongest cells marked.
//   ModelHeads heads = collect_heads(model, ids, {.heads = select_heads("", "", model.config())});
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "analyze/heads/patterns.h"
#include "base/causal_cells.h"
#include "base/task_needs.h"

namespace openwork {

enum class HeadOrder {
  kGiven,       // as `heads` lists them: layer by layer
  kImportance,  // by the task's effect where there is one, else by the strongest move between tokens; largest
                // first
};

struct HeadsSettings {
  std::vector<HeadPlace> heads;  // to look at
  HeadOrder order = HeadOrder::kGiven;
  std::optional<TaskNeeds> task = std::nullopt;
  bool show_blank = false;  // as empty panels; else they are left out and counted
  int64_t top = 0;          // at most so many, the first in order; 0: all
  int64_t cells = 1;        // along a panel's edge
  size_t frames = 0;        // the strongest cells of the model to frame
  std::optional<TokenPair> watched =
      std::nullopt;  // one cell to look at instead: frames and strength are its own
};

struct CollectedHead {
  HeadPlace place;
  PatternSummary summary;
  Cells cells;          // without values where the head is blank
  double strength = 0;  // of the watched cell, or the strongest move between tokens
  std::vector<TokenPair> frames;
};

struct ModelHeads {
  std::string name;               // the caller's to give
  int64_t layers = 0, heads = 0;  // heads per layer
  bool gated = false;
  int64_t prompts = 0, tokens = 0;
  std::vector<std::string> pieces;   // the texts of the one prompt's tokens; the caller's to give
  std::vector<CollectedHead> shown;  // in order
  std::vector<HeadPlace> blank;      // of those looked at
  bool blanks_shown = false;
  int64_t looked_at = 0;
  std::optional<TaskNeeds> task;
};

// ids [prompts, tokens]; patterns are the mean over prompts.
ModelHeads collect_heads(const Transformer& model, const Tensor& ids, const HeadsSettings& settings);

}  // namespace openwork
