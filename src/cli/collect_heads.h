// One model's heads for a figure: each chosen head's pattern averaged into cells, blank ones told apart, the
// rest in the order asked for, the strongest cells marked.
#pragma once
#include <map>
#include <optional>
#include <vector>

#include "analyze/heads/patterns.h"
#include "draw/cells.h"
#include "draw/head_grid.h"

namespace openwork {

enum class HeadOrder {
  kGiven,       // as `heads` lists them: layer by layer
  kImportance,  // by `importance` where it is given, else by the strongest move between tokens; largest first
};

struct HeadRequest {
  std::vector<HeadPlace> heads;  // to look at
  HeadOrder order = HeadOrder::kGiven;
  std::map<HeadPlace, double> importance;  // measured effects, where there are any
  bool show_blank = false;                 // as empty panels; else they are left out and counted
  int64_t top = 0;                         // at most so many, the first in order; 0: all
  int64_t cells = 1;                       // along a panel's edge
  size_t frames = 0;                       // the strongest cells of the model to frame
  std::optional<draw::TokenPair> watched;  // one cell to look at instead: frames and strength are its own
};

struct CollectedHead {
  HeadPlace place;
  PatternSummary summary;
  draw::Cells cells;    // without values where the head is blank
  double strength = 0;  // of the watched cell, or the strongest move between tokens
  std::vector<draw::TokenPair> frames;
};

struct CollectedHeads {
  std::vector<CollectedHead> shown;  // in order
  std::vector<HeadPlace> blank;      // of those looked at
  int64_t looked_at = 0;
};

CollectedHeads collect_heads(const Transformer& model, const at::Tensor& ids, const HeadRequest& request);

}  // namespace openwork
