// Adds up gradients over ranks, each rank getting the sum of its own share (shards.h), while the backward
// pass still runs: as soon as autograd has filled all of a chunk (a hook on each leaf says so), its sum
// begins, last layers first and always in the same order on every rank.
//   exchange.begin(last);  a pass's backward();  exchange.finish();
// In float32 passes before the last of a step only add to the gradients. Where the model computes with a
// copy, whose gradients have no room to be added up in float32 but in the rank's share, each pass is
// exchanged. The gates' few gradients are summed whole, after the last.
#pragma once
#include <cstdint>
#include <memory>

#include "train/ranks.h"
#include "train/weights.h"

namespace openwork {

class GradientExchange {
 public:
  GradientExchange(TrainedWeights& weights, Ranks& ranks);
  ~GradientExchange();
  GradientExchange(const GradientExchange&) = delete;
  GradientExchange& operator=(const GradientExchange&) = delete;

  void begin(bool last);
  void finish();  // after the last pass: this rank's own gradients are those of all ranks

  int64_t chunks() const;
  int64_t started_early() const;  // chunks of the last pass whose sum began before its backward pass ended

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the hooks; none: one rank alone
  TrainedWeights& weights_;
};

}  // namespace openwork
