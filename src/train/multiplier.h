// The Lagrange multiplier of "as few edges as possible, such that the loss stays at its target"
// (docs/method.md, 2):
//   loss    = (w * penalty + lambda * CE) / (1 + lambda)
//   lambda *= exp(rate * clip(EMA(CE) - target)) after each step, kept within bounds
// Its state lives on the training device, so that a step never waits for a number to reach the host; the host
// reads it when it logs.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

namespace openwork {

using at::Tensor;

struct MultiplierOptions {
  double start = 1, lowest = 1e-3, highest = 100;
  double rate = 0.2;        // per step and nat
  double clip = 0.1;        // nats
  double smoothing = 0.95;  // of the moving average
};

class Multiplier {
 public:
  Multiplier(const MultiplierOptions& options, const at::Device& device);

  Tensor lambda() const;                           // 0-dimensional float64, on the device
  void update(const Tensor& loss, double target);  // loss: 0-dimensional, the step's mean cross-entropy

  struct Reading {
    double lambda = 0, average = 0;  // average: EMA(CE)
    bool updated = false;            // there is an average
  };
  Reading read() const;  // waits for the device

  // Once in a run: a sentence where lambda has sat at its upper bound for `patience` readings on end.
  std::optional<std::string> warn(const Reading& reading, double target, int patience = 20);

  Tensor state() const { return state_; }  // [3], for checkpoints: lambda, weighted sum of CE, sum of weights

 private:
  MultiplierOptions options_;
  Tensor state_;
  int at_bound_ = 0;
  bool warned_ = false;
};

}  // namespace openwork
