#include "train/loss.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "ops/prediction_loss.h"

namespace openwork {
namespace {

Unembedding unembedding_of(const Transformer& model) {
  return {model.unembedding(), model.unembedding_bias()};
}

// Samples whose place in the step's batch is a multiple of `every`, and then the others.
struct Order {
  Tensor samples;
  int64_t chosen = 0;

  // first: the first sample's place in the step's batch. Made where the samples are: a copy would be waited for.
  Order(int64_t count, int64_t first, int64_t every, const at::Device& device)
      : chosen((first + count + every - 1) / every - (first + every - 1) / every) {
    const Tensor places =
        at::arange(first, first + count, at::TensorOptions().dtype(at::kLong).device(device));
    samples = places.remainder(every).ne(0).argsort(/*stable=*/true, 0, /*descending=*/false);
  }
};

// Cross-entropy and D KL of one pass, KL as this pass's part of the mean over the step's chosen samples:
// passes are weighed by their tokens, so what the chosen ones have counts `every` times.
//   hidden [samples, T, D]; ids, targets [samples, T]
PredictionLoss distil(const Transformer& model, const Transformer& dense, const Tensor& hidden,
                      const Tensor& ids, const Tensor& targets, int64_t first, const LossOptions& options) {
  const Order order(ids.size(0), first, options.distill_every, ids.device());
  const double share =
      static_cast<double>(options.distill_every) / static_cast<double>(ids.numel());  // of a token's KL
  TeacherRows teacher;
  if (order.chosen > 0) {
    const at::NoGradGuard no_grad;
    const Tensor chosen = ids.index_select(0, order.samples.narrow(0, 0, order.chosen));
    teacher = {dense.last_hidden(chosen).flatten(0, 1), unembedding_of(dense), options.distill * share};
  }
  PredictionLoss result =
      prediction_loss(hidden.index_select(0, order.samples).flatten(0, 1), unembedding_of(model),
                      targets.index_select(0, order.samples).flatten(), teacher);
  result.distance = result.distance.sum() * share;
  return result;
}

}  // namespace

PassLoss compute_pass_loss(const Transformer& model, const Transformer* dense, const PassInputs& inputs,
                           const LossOptions& options, const Taps* taps) {
  const int64_t T = inputs.tokens.size(1) - 1;
  const Tensor ids = inputs.tokens.narrow(1, 0, T), targets = inputs.tokens.narrow(1, 1, T);
  GateTotals gates;
  ForwardOptions forward;
  forward.draw = inputs.draw;
  forward.taps = taps;
  forward.gate_totals = &gates;
  const Tensor hidden = model.last_hidden(ids, forward);  // [samples, T, D]
  const bool held = inputs.lambda.defined() && !gates.penalty.empty();
  const bool distils = held && dense != nullptr && options.distill > 0;
  const PredictionLoss predictions =
      distils ? distil(model, *dense, hidden, ids, targets, inputs.draw.first, options)
              : prediction_loss(hidden.flatten(0, 1), unembedding_of(model), targets.flatten());
  PassLoss result;
  result.cross_entropy = predictions.cross_entropy.mean();
  result.loss = predictions.loss;
  if (distils) result.distance = predictions.distance;
  Tensor total;
  if (!gates.penalty.empty()) {
    const Tensor penalty = at::stack(gates.penalty);  // [layers, samples, heads]
    result.penalty = penalty.detach().mean();
    result.head_penalty = penalty.detach().mean(1);
    result.active = at::stack(gates.active).sum(1);
    total = penalty.mean();
    if (inputs.head_penalty.defined() || options.head_penalty > 0) {
      const Tensor heads =
          (inputs.slopes.defined() ? inputs.slopes.unsqueeze(1) * penalty
                                   : head_cost(penalty, options.head_form, options.head_knee))
              .mean();
      total = total + (inputs.head_penalty.defined() ? inputs.head_penalty.to(heads.dtype()) * heads
                                                     : options.head_penalty * heads);
    }
    total = options.penalty_weight * total;
  }
  if (!held) return result;
  const Tensor multiplier = inputs.lambda.to(at::kFloat);
  result.loss = (total + multiplier * predictions.loss) / (1 + multiplier);
  return result;
}

}  // namespace openwork
