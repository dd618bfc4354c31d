// What one pass over part of a batch adds to the step: its loss, for backward, and the numbers that are
// logged.
//   loss = (w * (penalty + W * phi(penalty)) + lambda * (CE + D * KL)) / (1 + lambda)        with gates
//   loss = CE                                                                               without
// penalty is the mean over samples, layers and heads of docs/method.md, 1; phi (head_penalty.h) is taken head
// by head and sample by sample, or its slope at the batch's mean weighs each head's penalty, so that a step
// is the same however it is cut into passes. KL is from the dense model's next-token probabilities to the
// trained model's, mean over the tokens of every n-th sample of the step's batch: the dense model's pass is a
// third of a step's work, and a part of the batch says where the distance grows as well as the whole. It is
// multiplied by lambda, as the cross-entropy is: what the run is held to is the model's predictions, and the
// price of an edge is in both.
#pragma once
#include <ATen/core/Tensor.h>

#include "model/transformer.h"
#include "train/head_penalty.h"

namespace openwork {

struct LossOptions {
  double penalty_weight = 1;  // w
  double head_penalty = 0;    // W
  HeadForm head_form = HeadForm::kSqrt;
  double head_knee = kHeadKnee;  // of the form log
  bool head_over_batch = false;  // phi of the batch's mean: compute_pass_loss is given its slopes
  double distill = 0;            // D
  int64_t distill_every = 4;     // n: KL is of samples 0, n, 2n, ... of the step's batch
};

struct PassLoss {
  Tensor loss;           // 0-dimensional, with its graph
  Tensor cross_entropy;  // the rest without: 0-dimensional
  Tensor penalty;        // mean of the penalty; undefined without gates
  Tensor distance;       // KL, as it stands in the loss; undefined without distillation
  Tensor head_penalty;   // [layers, heads] mean of the penalty over samples; undefined without gates
  Tensor active;         // [layers, heads] open gates, summed over samples; undefined without gates
};

// What changes from pass to pass; the tensors are where the model is.
struct PassInputs {
  Tensor tokens;  // [samples, T + 1]
  GateDraw draw = {};
  Tensor lambda = {};  // undefined: plain cross-entropy
  Tensor slopes =
      {};  // [layers, heads] phi' of each head's mean in the step before; undefined where phi is taken
           // sample by sample
  Tensor head_penalty = {};  // W where it moves in the run, else that of the options; 0-dimensional
};

// dense: the teacher, or null; taps: of the trained model's pass. The host never waits for the device here.
PassLoss compute_pass_loss(const Transformer& model, const Transformer* dense, const PassInputs& inputs,
                           const LossOptions& options, const Taps* taps = nullptr);

}  // namespace openwork
