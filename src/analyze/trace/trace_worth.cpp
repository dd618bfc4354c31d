#include "analyze/trace/trace_worth.h"

#include <ATen/ATen.h>

#include <limits>

#include "transcode/mlp_activations.h"

namespace openwork {
namespace {

Tensor columns_of(const std::vector<TraceNodeKind>& kinds, TraceNodeKind kind) {  // [N] bool
  Tensor mask = at::zeros({static_cast<int64_t>(kinds.size())}, at::kBool);
  for (size_t n = 0; n < kinds.size(); ++n) mask.data_ptr<bool>()[n] = kinds[n] == kind;
  return mask;
}

double sum_of(const Tensor& numbers, const Tensor& mask) {
  return numbers.masked_select(mask).sum(at::kDouble).item<double>();
}

double divide(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

// What the model makes of the prompt under these taps.
struct Prediction {
  double loss = 0;         // mean nats of the tokens after the first; NaN where there are none
  double probability = 0;  // of the first target
};
Prediction predict(const TraceState& state, const Taps& taps) {
  ForwardOptions options;
  options.taps = &taps;
  const int64_t tokens = state.run.tokens;
  const Tensor logits = state.run.model.forward(state.run.ids, options)[0];  // [T, V]
  const Tensor last = at::softmax(logits[tokens - 1].to(at::kCPU, at::kDouble), 0);
  Prediction found{std::numeric_limits<double>::quiet_NaN(), last[state.targets.front()].item<double>()};
  if (tokens > 1) {
    found.loss =
        at::cross_entropy_loss(logits.narrow(0, 0, tokens - 1), state.run.ids[0].narrow(0, 1, tokens - 1))
            .item<double>();
  }
  return found;
}

}  // namespace

TraceWorth score_effects(const EffectRows& effects, const std::vector<TraceNodeKind>& kinds) {
  const Tensor tokens = columns_of(kinds, TraceNodeKind::kEmbedding),
               errors = columns_of(kinds, TraceNodeKind::kError),
               biases = columns_of(kinds, TraceNodeKind::kBias);
  TraceWorth worth;
  const Tensor all = find_influence(effects);
  worth.error_share = divide(sum_of(all, errors), sum_of(all, tokens.logical_or(errors).logical_or(biases)));

  EffectRows plain = effects;
  plain.weights = effects.weights.to(at::kCPU) * biases.logical_not().unsqueeze(0);
  const Tensor influence = find_influence(plain);
  const double from_tokens = sum_of(influence, tokens), from_errors = sum_of(influence, errors);
  worth.replacement = divide(from_tokens, from_tokens + from_errors);

  const Tensor sizes = plain.weights.abs();
  const Tensor dark = (sizes * errors.unsqueeze(0)).sum(1, false, at::kDouble) /
                      sizes.sum(1, false, at::kDouble).clamp_min(kSmallestSum);  // [R]: errors' part of a row
  const Tensor passed = at::tensor(row_influence(plain, influence), at::kDouble);
  double weights = influence.sum().item<double>();
  for (const double start : effects.starts) weights += start;
  worth.completeness = weights > 0 ? 1 - (dark * passed).sum().item<double>() / weights : 0;
  return worth;
}

void measure_replaced(const TraceState& state, TraceWorth& worth) {
  Taps taps;
  replace_mlps(taps, *state.transcoders, state.run.config());
  worth.model_loss = predict(state, Taps{}).loss;
  const Prediction replaced = predict(state, taps);
  worth.replaced_loss = replaced.loss, worth.replaced_probability = replaced.probability;
}

}  // namespace openwork
