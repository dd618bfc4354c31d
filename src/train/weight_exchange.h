// How the shares of ranks (shards.h) become whole again: the weights that the model computes with after each
// step, and all trained numbers, chunk by chunk, for whoever saves them.
#pragma once
#include <functional>
#include <utility>
#include <vector>

#include "train/ranks.h"
#include "train/weights.h"

namespace openwork {

// After the masters changed: every rank computes with everybody's numbers. Of one rank: refresh().
void share_weights(TrainedWeights& weights, Ranks& ranks);

// A flat buffer's numbers in the order of their offsets, padding left out, in pieces that are shown to `take`
// on the first rank (on `everywhere`: on all). Whole buffers are taken as they are; of others each rank
// fetches a chunk at a time. All ranks call it.
using TakePiece = std::function<void(const Tensor& piece)>;
void gather_flat(const TrainedWeights& weights, const Tensor& flat, Ranks& ranks, const TakePiece& take,
                 bool everywhere = false);

// All masters [numbers] on the CPU of the first rank (or everywhere); undefined where they are whole.
Tensor gather_masters(const TrainedWeights& weights, Ranks& ranks, bool everywhere);

// Where the numbers of a flat buffer stand among all, by offset: what a rank reads back. Views.
std::vector<std::pair<int64_t, Tensor>> places_of(const TrainedWeights& weights, const Tensor& flat);

}  // namespace openwork
