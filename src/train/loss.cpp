#include "train/loss.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "ops/fused.h"

namespace openwork {
namespace {

// This pass's part of the mean over the step's chosen samples, those whose place in the batch is a multiple
// of `every`: passes are weighed by their tokens, so what the chosen ones have counts `every` times.
//   logits [samples T, V]; ids [samples, T]; first: the first sample's place in the step's batch
Tensor kl_to_dense(const Tensor& logits, const Transformer& dense, const Tensor& ids, int64_t first,
                   int64_t every) {
  const int64_t samples = ids.size(0), T = ids.size(1), from = (every - first % every) % every;
  if (from >= samples) return at::zeros({}, logits.options().dtype(at::kFloat));
  const auto choose = [&](const Tensor& x) { return x.slice(0, from, samples, every); };
  Tensor wanted;
  {
    const at::NoGradGuard no_grad;
    wanted = at::log_softmax(dense.forward(choose(ids)), -1, at::kFloat);
  }
  const Tensor given = at::log_softmax(choose(logits.unflatten(0, {samples, T})), -1, at::kFloat);
  const Tensor sum = at::kl_div(given, wanted, at::Reduction::Sum, /*log_target=*/true);
  return sum * (static_cast<double>(every) / static_cast<double>(samples * T));
}

}  // namespace

PassLoss compute_pass_loss(const Transformer& model, const Transformer* dense, const Tensor& tokens,
                           const GateDraw& draw, const Tensor& lambda, const LossOptions& options,
                           const Tensor& slopes, const Taps* taps) {
  const int64_t T = tokens.size(1) - 1;
  const Tensor ids = tokens.narrow(1, 0, T), targets = tokens.narrow(1, 1, T).flatten();
  GateTotals gates;
  ForwardOptions forward;
  forward.draw = draw;
  forward.taps = taps;
  forward.gate_totals = &gates;
  const Tensor logits = model.forward(ids, forward).flatten(0, 1);  // [samples T, V]
  PassLoss result;
  const Tensor cross_entropy = openwork::cross_entropy(logits, targets);
  result.cross_entropy = cross_entropy.detach();
  result.loss = cross_entropy;
  Tensor total;
  if (!gates.penalty.empty()) {
    const Tensor penalty = at::stack(gates.penalty);  // [layers, samples, heads]
    result.penalty = penalty.detach().mean();
    result.head_penalty = penalty.detach().mean(1);
    result.active = at::stack(gates.active).sum(1);
    total = penalty.mean();
    if (options.head_penalty > 0) {
      const Tensor heads =
          slopes.defined() ? slopes.unsqueeze(1) * penalty : head_cost(penalty, options.head_form);
      total = total + options.head_penalty * heads.mean();
    }
    total = options.penalty_weight * total;
  }
  if (!lambda.defined() || !total.defined()) return result;
  const Tensor multiplier = lambda.to(at::kFloat);
  Tensor held = cross_entropy;
  if (dense != nullptr && options.distill > 0) {
    const Tensor distance = kl_to_dense(logits, *dense, ids, draw.first, options.distill_every);
    result.distance = distance.detach();
    held = held + options.distill * distance;
  }
  result.loss = (total + multiplier * held) / (1 + multiplier);
  return result;
}

}  // namespace openwork
