// turned_gated_attention against what it stands for: queries and keys turned first, then gated attention.
#pragma once
#include <torch/csrc/autograd/autograd.h>

#include "ops/cases.h"
#include "ops/fused.h"

namespace openwork {

// Angles of `half` pairs at T positions, as rotary positions have them, on q's device and in its dtype.
inline Turns make_turns(const at::Tensor& q, int64_t half) {
  const auto doubles = at::TensorOptions().dtype(at::kDouble);
  const at::Tensor steps = at::pow(10000.0, at::arange(half, doubles) / -static_cast<double>(half));
  const at::Tensor angles = at::outer(at::arange(q.size(2), doubles), steps);
  return {angles.cos().to(q.options()), angles.sin().to(q.options())};
}

// out, penalty, and the gradients of q, k, v and bias, by the one operator or by the two.
inline std::vector<NamedTensor> run_turned(const AttentionCase& of, const AttentionInputs& inputs,
                                           const Turns& turns, bool as_one) {
  const auto leaf = [](const at::Tensor& x) { return x.detach().requires_grad_(true); };
  const at::Tensor q = leaf(inputs.q), k = leaf(inputs.k), v = leaf(inputs.v), bias = leaf(inputs.bias);
  const auto idle = inputs.idle.defined() ? std::optional(inputs.idle) : std::nullopt;
  const auto turned = [&](const at::Tensor& x) { return turn_heads(x, turns.cosine, turns.sine); };
  const GatedAttentionResult result =
      as_one ? turned_gated_attention(turns, q, k, v, bias, idle, of.gate, of.seed, of.first, std::nullopt,
                                      of.sharpness)
             : gated_attention(turned(q), turned(k), v, bias, idle, of.gate, of.seed, of.first, std::nullopt,
                               of.sharpness);
  const auto grads = torch::autograd::grad({result.out, result.penalty}, {q, k, v, bias},
                                           {inputs.grad_out, inputs.grad_penalty.to(result.penalty.dtype())});
  return {{"out", result.out.detach()}, {"penalty", result.penalty.detach()},
          {"grad_q", grads[0]},         {"grad_k", grads[1]},
          {"grad_v", grads[2]},         {"grad_bias", grads[3]}};
}

inline void expect_turned_as_in_two(const AttentionCase& of, const AttentionInputs& inputs, int64_t half,
                                    double tolerance) {
  SCOPED_TRACE(describe(of) + ", half " + std::to_string(half));
  const Turns turns = make_turns(inputs.q, half);
  const auto one = run_turned(of, inputs, turns, true), two = run_turned(of, inputs, turns, false);
  for (size_t n = 0; n < one.size(); ++n) {
    EXPECT_LE(relative_error(one[n].value, two[n].value), tolerance) << one[n].name;
  }
}

}  // namespace openwork
