// AdamW (Loshchilov and Hutter 2019) over flat float32 buffers, with gradient clipping by the global norm:
//   g *= min(1, clip / |g|);  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
//   w -= rate * decay * w;    w -= rate * (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + epsilon)
// One fused kernel per segment (PyTorch's own, which CPU and CUDA both have). Of several ranks each has the
// moments of its own share and changes its own masters; share_weights (weight_exchange.h) tells the others.
// Nothing here waits for the device: a gradient that is not finite changes no weight and shows in the norm, which the caller reads when
// it logs.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>

#include "train/ranks.h"
#include "train/weights.h"

namespace openwork {

struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double weight_decay = 0;  // of the decayed segment
  double clip = 1;          // of the gradient's norm; 0: none
};

class AdamW {
 public:
  AdamW(const TrainedWeights& weights, const AdamWOptions& options, Ranks* ranks = nullptr);

  // One step with the learning rate of each segment; returns the gradient's norm before clipping
  // (0-dimensional). The weights' refresh() is the caller's.
  Tensor step(const std::array<double, kSegments>& rates);

  const Tensor& first_moment() const { return first_; }    // [share | gates], for checkpoints
  const Tensor& second_moment() const { return second_; }  // likewise
  const Tensor& steps() const { return steps_; }           // [1] float32: t

 private:
  const TrainedWeights& weights_;
  AdamWOptions options_;
  Ranks* ranks_;
  Tensor first_, second_, steps_;
};

}  // namespace openwork
