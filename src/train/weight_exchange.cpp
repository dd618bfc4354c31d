#include "train/weight_exchange.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "train/in_flight.h"

namespace openwork {
namespace {

void gather_chunks(const TrainedWeights& weights, const Tensor& whole, Ranks& ranks) {
  const ShardPlan& shards = weights.plan().shards;
  InFlight gathers;
  for (const ShardPlan::Chunk& chunk : shards.chunks())
    gathers.add([&] { return ranks.start_gather(whole.narrow(0, chunk.begin, shards.size(chunk))); });
  gathers.finish();
}

}  // namespace

void share_weights(TrainedWeights& weights, Ranks& ranks) {
  const at::NoGradGuard no_grad;
  const bool whole = weights.is_whole(weights.masters());
  if (ranks.count() > 1 && whole) gather_chunks(weights, weights.masters(), ranks);
  weights.refresh();
  if (ranks.count() > 1 && !whole) gather_chunks(weights, weights.copies(), ranks);
}

void gather_flat(const TrainedWeights& weights, const Tensor& flat, Ranks& ranks, const TakePiece& take,
                 bool everywhere) {
  const at::NoGradGuard no_grad;
  const ShardPlan& shards = weights.plan().shards;
  const bool takes = everywhere || ranks.is_first();
  if (weights.is_whole(flat)) {
    if (takes) take(flat.narrow(0, 0, shards.numbers())), take(weights.gates_of(flat));
    return;
  }
  for (const ShardPlan::Chunk& chunk : shards.chunks()) {
    const Tensor whole = at::empty({shards.size(chunk)}, flat.options());
    whole.narrow(0, shards.rank() * chunk.piece, chunk.piece).copy_(weights.own_piece(flat, chunk));
    ranks.start_gather(whole)();
    if (takes) take(whole.narrow(0, 0, std::min(whole.numel(), shards.numbers() - chunk.begin)));
  }
  if (takes) take(weights.gates_of(flat));
}

Tensor gather_masters(const TrainedWeights& weights, Ranks& ranks, bool everywhere) {
  if (weights.is_whole(weights.masters())) return {};
  const bool takes = everywhere || ranks.is_first();
  Tensor all = takes ? at::empty({weights.plan().numbers()}, at::kFloat) : Tensor();
  int64_t begin = 0;
  const TakePiece take = [&](const Tensor& piece) {
    all.narrow(0, begin, piece.numel()).copy_(piece);
    begin += piece.numel();
  };
  gather_flat(weights, weights.masters(), ranks, take, everywhere);
  return all;
}

std::vector<std::pair<int64_t, Tensor>> places_of(const TrainedWeights& weights, const Tensor& flat) {
  const ShardPlan& shards = weights.plan().shards;
  std::vector<std::pair<int64_t, Tensor>> places;
  if (weights.is_whole(flat)) {
    places.emplace_back(0, flat.narrow(0, 0, shards.numbers()));
  } else {
    for (const ShardPlan::Chunk& chunk : shards.chunks()) {
      const int64_t begin = shards.own_begin(chunk),
                    count = std::min(chunk.piece, shards.numbers() - begin);  // the rest is padding
      if (count > 0) places.emplace_back(begin, weights.own_piece(flat, chunk).narrow(0, 0, count));
    }
  }
  places.emplace_back(shards.numbers(), weights.gates_of(flat));
  return places;
}

}  // namespace openwork
