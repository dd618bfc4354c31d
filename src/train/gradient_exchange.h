// Adds up gradients over ranks while the backward pass still runs. The flat gradient buffer is cut into
// buckets of about 25 MB, last layers first; as soon as autograd has filled all of a bucket (a hook on each
// leaf says so), its sum begins, always in the same order on every rank.
//   exchange.begin();  last pass's backward();  exchange.finish();
// begin comes before the last pass of a step, finish after it: passes before it only add to the buffer.
#pragma once
#include <cstdint>
#include <memory>

#include "train/ranks.h"
#include "train/weights.h"

namespace openwork {

class GradientExchange {
 public:
  GradientExchange(TrainedWeights& weights, Ranks& ranks, int64_t bucket_bytes = int64_t{25} << 20);
  ~GradientExchange();
  GradientExchange(const GradientExchange&) = delete;
  GradientExchange& operator=(const GradientExchange&) = delete;

  void begin();
  void finish();  // every rank has the summed gradients; collect_gradients has been done on the way

  int64_t buckets() const;
  int64_t started_early() const;  // buckets of the last step whose sum began before its backward pass ended

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the hooks; none: one rank alone
  TrainedWeights& weights_;
};

}  // namespace openwork
