// The numbers of a line of metrics.jsonl, summed over its steps on the training device, so that no step waits
// for them; read, and added up over ranks, when the line is written.
#pragma once
#include "train/ranks.h"
#include "train/weights.h"

namespace openwork {

class Totals {
 public:
  explicit Totals(const TrainedWeights& weights);

  // Of a pass over part of a batch, this rank's: `share` is that part. Undefined tensors add nothing.
  void add_pass(const Tensor& penalty, const Tensor& distance, const Tensor& active, double share);
  // Of a whole step, the same on all ranks.
  void add_step(const Tensor& cross_entropy, const Tensor& norm);
  int64_t steps() const { return steps_; }
  bool is_finite() const;  // losses and gradient norms so far; waits for the device

  struct Reading {
    double cross_entropy = 0, penalty = 0, distance = 0, norm = 0;  // means over steps
    Tensor active;  // [layers, heads] float64 on the host: open gates, summed over the steps' batches
    int64_t steps = 0;
  };
  Reading read(Ranks& ranks);  // and starts again from nothing

 private:
  Tensor steps_sums_;  // [2] float64: cross-entropy, gradient norm
  Tensor pass_sums_;   // [2 + layers * heads] float64: penalty, distance, open gates
  int64_t steps_ = 0, layers_, heads_;
};

}  // namespace openwork
