// Which heads carry effects from token to token. Every path from a source at s to a target at t > s makes a
// last move between tokens, by one head of one layer, from some p < t to t; after it the path stays at t:
//   share(l, h) = sum over p < t of mix_tp (value_h x_p) . (output_h^T g)
// x: the source's writing carried forward, by all paths, to the tokens before layer l; g: the target's
// direction carried back, by steps that stay at t, to the place behind layer l's attention. Shares sum to the
// effect.
#pragma once
#include <functional>
#include <vector>

#include "analyze/trace/linear_pass.h"

namespace openwork {

struct ShareRequest {
  const LinearPass& pass;
  const TraceSources& sources;
  const Targets& targets;               // in order of their tokens
  const std::vector<int64_t>& columns;  // sources, best in order of layers
  int64_t bytes = 0;                    // that the shares of all batches made side by side may take
};

// Shares of a batch of sources, columns[first] and those that follow: [layers * heads, targets, n]; 0 where
// nothing moves, as for targets at the source's own token.
using ShareVisitor = std::function<void(size_t first, const Tensor& shares)>;
// What a head gathers from other tokens of a batch of sources, at tokens from `first` on: [P, n, d].
using MoveVisitor = std::function<void(int64_t layer, int64_t head, int64_t first, const Tensor& moved)>;

// Batches are made side by side (batches_apart.h), in no set order; the visitors are called one at a time.
void share_by_heads(const ShareRequest& request, const ShareVisitor& visit,
                    const MoveVisitor& see_moves = nullptr);

}  // namespace openwork
