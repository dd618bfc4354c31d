// What one pass over part of a batch adds to the step: its loss, for backward, and the numbers that are
// logged.
//   loss = (w * (penalty + W * sqrt(penalty)) + lambda * CE + D * KL) / (1 + lambda)         with gates
//   loss = CE                                                                               without
// penalty is the mean over samples, layers and heads of METHOD 1's; the square root is taken head by head and
// sample by sample, so that a step is the same however it is cut into passes. KL is from the dense model's
// next-token probabilities to the trained model's, mean over tokens.
#pragma once
#include <ATen/core/Tensor.h>

#include "model/transformer.h"

namespace openwork {

struct LossOptions {
  double penalty_weight = 1;  // w
  double head_penalty = 0;    // W
  double distill = 0;         // D
};

struct PassLoss {
  Tensor loss;           // 0-dimensional, with its graph
  Tensor cross_entropy;  // the rest without: 0-dimensional
  Tensor penalty;        // mean of METHOD's penalty; undefined without gates
  Tensor distance;       // KL; undefined without distillation
  Tensor active;         // [layers, heads] open gates, summed over samples; undefined without gates
};

// tokens [samples, T + 1]; lambda undefined: plain cross-entropy; dense: the teacher, or null; taps: of the
// trained model's pass.
PassLoss compute_pass_loss(const Transformer& model, const Transformer* dense, const Tensor& tokens,
                           const GateDraw& draw, const Tensor& lambda, const LossOptions& options,
                           const Taps* taps = nullptr);

}  // namespace openwork
