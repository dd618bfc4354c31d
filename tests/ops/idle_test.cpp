// What the idle gate becomes at its ends (docs/operator.md): logprob where the idle score is -infinity,
// closed where it is +infinity, score with bias b - a where both are large; and that nothing breaks in
// between.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <limits>

#include "ops/cases.h"

namespace openwork {
namespace {

using at::Tensor;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class IdleGate : public testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }
  void TearDown() override { at::set_num_threads(before_); }

 private:
  int before_ = at::get_num_threads();
};

// Odd T, grouped queries, head sizes up to 256; hard and sampled; every sharpness; both ways of rounding.
std::vector<AttentionCase> idle_cases() {
  std::vector<AttentionCase> cases;
  for (const Shape& shape : {Shape{2, 4, 2, 65, 16}, {1, 3, 1, 97, 256}, {1, 2, 2, 7, 5}}) {
    for (const bool sampled : {false, true}) {
      for (const double sharpness : {1.0, 2.0, 4.0}) {
        for (const auto dtype : {at::kDouble, at::kFloat}) {
          AttentionCase of;
          of.B = shape.B, of.H = shape.H, of.Hkv = shape.Hkv, of.T = shape.T, of.d = shape.d;
          of.dtype = dtype, of.sharpness = sharpness;
          set_gate(of, kGateIdle);
          if (sampled) of.seed = 21;
          cases.push_back(of);
        }
      }
    }
  }
  return cases;
}

using Runner = AttentionGradients (*)(const AttentionCase&, const AttentionInputs&);
constexpr Runner kBothRuns[] = {run_operator, run_reference};

void expect_alike(const AttentionGradients& seen, const AttentionGradients& wanted, double tolerance) {
  EXPECT_TRUE(seen.result.active.equal(wanted.result.active));
  const auto wanted_results = named_results(wanted), seen_results = named_results(seen);
  for (size_t n = 0; n < 6; ++n) {  // not the idle score's own gradient
    EXPECT_LE(relative_error(seen_results[n].value, wanted_results[n].value), tolerance)
        << wanted_results[n].name;
  }
}

TEST_F(IdleGate, OfMinusInfinityIsLogprob) {
  for (const AttentionCase& of : idle_cases()) {
    SCOPED_TRACE(describe(of));
    AttentionInputs inputs = make_inputs(of);
    AttentionCase logprob = of;
    logprob.gate = std::string(kGateLogProb);
    for (const Runner run : kBothRuns) {
      inputs.idle = at::full_like(inputs.bias, -kInfinity);
      const AttentionGradients seen = run(of, inputs);
      inputs.idle = Tensor();
      expect_alike(seen, run(logprob, inputs), 1e-12);
      EXPECT_EQ(seen.idle.abs().max().item<double>(), 0);
    }
  }
}

TEST_F(IdleGate, OfPlusInfinityIsClosed) {
  for (const AttentionCase& of : idle_cases()) {
    SCOPED_TRACE(describe(of));
    AttentionInputs inputs = make_inputs(of);
    inputs.idle = at::full_like(inputs.bias, kInfinity);
    for (const Runner run : kBothRuns) {
      const AttentionGradients seen = run(of, inputs);
      EXPECT_EQ(seen.result.active.max().item<int64_t>(), 0);
      for (const auto& result : named_results(seen)) {
        EXPECT_LE(result.value.abs().max().item<double>(), 1e-20) << result.name;
      }
      EXPECT_EQ(seen.idle.abs().max().item<double>(), 0);
    }
  }
}

TEST_F(IdleGate, OfALargeScoreAndBiasIsScore) {
  for (const AttentionCase& of : idle_cases()) {
    SCOPED_TRACE(describe(of));
    AttentionInputs inputs = make_inputs(of);
    const Tensor difference = at::linspace(-1, 1, of.H, inputs.bias.options());
    AttentionCase score = of;
    score.gate = std::string(kGateScore);
    for (const Runner run : kBothRuns) {
      inputs.idle = at::full_like(inputs.bias, 30);
      inputs.bias = difference + 30;
      const AttentionGradients seen = run(of, inputs);
      inputs.idle = Tensor();
      inputs.bias = difference;
      const AttentionGradients wanted = run(score, inputs);
      expect_alike(seen, wanted, 1e-4);
      EXPECT_LE(relative_error(seen.idle, -wanted.bias), 1e-4);  // what b gains, a loses
    }
  }
}

TEST_F(IdleGate, SurvivesExtremeScoresBiasesAndIdles) {
  for (AttentionCase of : idle_cases()) {
    for (const float stretch : {1.0f, 1000.0f}) {
      AttentionInputs inputs = make_inputs(of);
      inputs.q = inputs.q * stretch;
      for (const auto& [a, b] : {std::pair{200.f, 200.f},
                                 {-200.f, 200.f},
                                 {200.f, -200.f},
                                 {1e5f, 1e5f},
                                 {-1e5f, -1e5f},
                                 {kInfinity, 200.f},
                                 {-kInfinity, -200.f}}) {
        inputs.idle = at::full_like(inputs.bias, a);
        inputs.bias = at::full_like(inputs.bias, b);
        for (const auto& result : named_results(run_operator(of, inputs))) {
          EXPECT_TRUE(result.value.isfinite().all().item<bool>())
              << describe(of) << " a " << a << " b " << b << " stretch " << stretch << " " << result.name;
        }
      }
    }
  }
}

// A row where no key comes near the idle key closes whole, however short it is: what logprob cannot do.
TEST_F(IdleGate, ClosesShortRowsWhole) {
  const int64_t T = 8, d = 4;
  const Tensor zeros = at::zeros({1, 1, T, d}), v = at::ones({1, 1, T, d}), bias = at::full({1}, 3.0);
  EXPECT_GT(gated_attention(zeros, zeros, v, bias, std::nullopt, kGateLogProb).active.item<int64_t>(), 0);
  const auto closed = gated_attention(zeros, zeros, v, bias, at::full({1}, 5.0), kGateIdle);
  EXPECT_EQ(closed.active.item<int64_t>(), 0);
  EXPECT_EQ(closed.out.abs().max().item<float>(), 0);
  // Scores of 0 beside an idle key of -3: P w = 1 / (i + 1 + e^-3), over e^-3 up to row 19.
  EXPECT_EQ(gated_attention(zeros, zeros, v, bias, at::full({1}, -3.0), kGateIdle).active.item<int64_t>(),
            T * (T + 1) / 2);
}

}  // namespace
}  // namespace openwork
