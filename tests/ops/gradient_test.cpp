// Finite differences against the kernels' gradients, where the operator is smooth: hard gates hold still for
// small steps (the P path and the penalty path), and sampled gates' straight-through slope is that of the
// operator with each gate replaced by its sigmoid, which the reference's own autograd is checked with.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "ops/cases.h"

namespace openwork {
namespace {

using at::Tensor;

// Many small calls: one thread is quicker.
class GatedAttentionGradient : public testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }
  void TearDown() override { at::set_num_threads(before_); }

 private:
  int before_ = at::get_num_threads();
};

GatedAttentionResult run_forward(const AttentionCase& of, const AttentionInputs& inputs) {
  const auto idle = inputs.idle.defined() ? std::optional(inputs.idle) : std::nullopt;
  return gated_attention(inputs.q, inputs.k, inputs.v, inputs.bias, idle, of.gate, of.seed, of.first,
                         std::nullopt, of.sharpness);
}

// grad_out . out + grad_penalty . penalty, the number whose gradient backward returns.
double objective(const AttentionCase& of, const AttentionInputs& at_point, const AttentionInputs& grads) {
  const auto result = run_forward(of, at_point);
  return ((result.out * grads.grad_out).sum() + (result.penalty * grads.grad_penalty).sum()).item<double>();
}

// Steps one element of one input both ways; gives up (NaN) where a gate opens or closes in between.
double central_difference(const AttentionCase& of, const AttentionInputs& inputs,
                          Tensor AttentionInputs::*which, int64_t element) {
  const double step = 1e-5;
  double values[2];
  Tensor active[2];
  for (const int side : {0, 1}) {
    AttentionInputs moved = inputs;
    moved.*which = (inputs.*which).clone();
    (moved.*which).view(-1)[element] += side ? step : -step;
    values[side] = objective(of, moved, inputs);
    active[side] = run_forward(of, moved).active;
  }
  if (!active[0].equal(active[1])) return NAN;
  return (values[1] - values[0]) / (2 * step);
}

void expect_finite_differences(const AttentionCase& of) {
  SCOPED_TRACE(describe(of));
  const AttentionInputs inputs = make_inputs(of);
  const AttentionGradients gradients = run_operator(of, inputs);
  std::vector<std::pair<Tensor AttentionInputs::*, Tensor>> sides = {
      {&AttentionInputs::q, gradients.q},
      {&AttentionInputs::k, gradients.k},
      {&AttentionInputs::v, gradients.v},
      {&AttentionInputs::bias, gradients.bias}};
  if (gradients.idle.defined()) sides.emplace_back(&AttentionInputs::idle, gradients.idle);
  int compared = 0;
  for (const auto& [which, gradient] : sides) {
    const int64_t count = gradient.numel(), stride = std::max<int64_t>(1, count / 23);
    for (int64_t element = 0; element < count; element += stride) {
      const double slope = central_difference(of, inputs, which, element);
      if (std::isnan(slope)) continue;
      const double wanted = gradient.contiguous().view(-1)[element].item<double>();
      EXPECT_NEAR(wanted, slope, 1e-6 * std::max(1.0, std::abs(slope))) << "element " << element;
      ++compared;
    }
  }
  EXPECT_GT(compared, 40);
}

AttentionCase small_case(std::string_view gate) {
  AttentionCase of;
  of.B = 2, of.H = 4, of.Hkv = 2, of.T = 70, of.d = 12, of.dtype = at::kDouble;
  set_gate(of, gate);
  return of;
}

TEST_F(GatedAttentionGradient, OfHardScoreGatesIsTheSlope) {
  expect_finite_differences(small_case(kGateScore));
}
TEST_F(GatedAttentionGradient, OfHardLogProbGatesIsTheSlope) {
  expect_finite_differences(small_case(kGateLogProb));
}
TEST_F(GatedAttentionGradient, OfHardIdleGatesIsTheSlope) {
  expect_finite_differences(small_case(kGateIdle));
}
TEST_F(GatedAttentionGradient, OfSharperGatesIsTheSlope) {
  for (const auto gate : kAllGates) {
    for (const double sharpness : {2.0, 4.0}) {
      AttentionCase of = small_case(gate);
      of.sharpness = sharpness;
      expect_finite_differences(of);
    }
  }
}

// With out = sum of P s v (s the sigmoid itself), the derivative through s is the straight-through one, and
// the one through P differs from the operator's only by s standing for z. Fully open gates make both alike.
TEST_F(GatedAttentionGradient, OfSampledGatesIsStraightThrough) {
  AttentionCase of = small_case(kGateScore);
  of.H = of.Hkv = 1, of.B = 1, of.T = 9, of.seed = 12;
  const AttentionInputs inputs = make_inputs(of);
  const Tensor u = gate_uniforms(1, 1, of.T, *of.seed), causal = at::ones({of.T, of.T}, at::kBool).tril();
  const Tensor S = inputs.q.matmul(inputs.k.transpose(-2, -1)) / std::sqrt(static_cast<double>(of.d));
  const Tensor P = S.masked_fill(~causal, -INFINITY).softmax(-1);
  const Tensor g = S + inputs.bias, s = (g + u.log() - (1 - u).log()).sigmoid();
  const Tensor dA = inputs.grad_out.matmul(inputs.v.transpose(-2, -1));
  const Tensor p = g.sigmoid();
  const double pairs = 0.5 * static_cast<double>(of.T * (of.T + 1));
  const Tensor dg = (P * dA * s * (1 - s) + inputs.grad_penalty.view({1, 1, 1, 1}) * p * (1 - p) / pairs)
                        .masked_fill(~causal, 0);
  EXPECT_NEAR(run_operator(of, inputs).bias.item<double>(), dg.sum().item<double>(), 1e-10);
}

TEST_F(GatedAttentionGradient, OfAnUnusedPenaltyIsThatOfZero) {
  AttentionCase of = small_case(kGateLogProb);
  of.seed = 2;
  AttentionInputs inputs = make_inputs(of);
  const Tensor q = inputs.q.detach().requires_grad_();
  const auto result = gated_attention(q, inputs.k, inputs.v, inputs.bias, std::nullopt, of.gate, of.seed);
  const auto unused = torch::autograd::grad({result.out}, {q}, {inputs.grad_out});
  inputs.grad_penalty.zero_();
  EXPECT_TRUE(unused[0].equal(run_operator(of, inputs).q));
}

TEST_F(GatedAttentionGradient, OfThePenaltyAloneNeedsNoOut) {
  AttentionCase of = small_case(kGateScore);
  AttentionInputs inputs = make_inputs(of);
  const Tensor k = inputs.k.detach().requires_grad_();
  const auto result = gated_attention(inputs.q, k, inputs.v, inputs.bias, std::nullopt, of.gate);
  const auto alone = torch::autograd::grad({result.penalty}, {k}, {inputs.grad_penalty});
  inputs.grad_out.zero_();
  EXPECT_TRUE(alone[0].equal(run_operator(of, inputs).k));
}

TEST_F(GatedAttentionGradient, CountsHaveNone) {
  const AttentionInputs inputs = make_inputs(small_case(kGateScore));
  const auto result = gated_attention(inputs.q.detach().requires_grad_(), inputs.k, inputs.v, inputs.bias);
  EXPECT_TRUE(result.out.requires_grad());
  EXPECT_TRUE(result.penalty.requires_grad());
  EXPECT_FALSE(result.active.requires_grad());
}

TEST_F(GatedAttentionGradient, RefusesASecondDerivative) {
  const AttentionInputs inputs = make_inputs(small_case(kGateScore));
  const Tensor q = inputs.q.detach().requires_grad_();
  const auto result = gated_attention(q, inputs.k, inputs.v, inputs.bias);
  try {
    torch::autograd::grad({result.out.sum()}, {q}, {}, true, true);
    FAIL() << "no error";
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what()).find("second derivative"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace openwork
