// The CPU kernels against the float64 reference over the shared cases, in every dtype, gradients included,
// and what must hold whatever the numbers: causality, closed heads, batches in parts.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <random>

#include "ops/cases.h"

namespace openwork {
namespace {

using at::Tensor;

// Small cases, many of them: threads would spend their time meeting. Threads have tests of their own.
class GatedAttentionCpu : public testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }
  void TearDown() override { at::set_num_threads(before_); }

 private:
  int before_ = at::get_num_threads();
};

// Every result within `tolerance` of the float64 reference on the same numbers, every gate the same.
void expect_exact(const AttentionCase& of, double tolerance) {
  SCOPED_TRACE(describe(of));
  const AttentionInputs inputs = make_inputs(of);
  const AttentionGradients wanted = run_reference(of, inputs.to(at::kDouble));
  const AttentionGradients seen = run_operator(of, inputs);
  EXPECT_TRUE(seen.result.active.equal(wanted.result.active));
  const auto seen_results = named_results(seen), wanted_results = named_results(wanted);
  for (size_t n = 0; n < seen_results.size(); ++n) {
    EXPECT_LE(relative_error(seen_results[n].value, wanted_results[n].value), tolerance)
        << seen_results[n].name;
  }
}

TEST_F(GatedAttentionCpu, AgreesWithTheReferenceInFloat64) {
  for (const auto& of : test_cases(at::kDouble)) expect_exact(of, 1e-10);
}

TEST_F(GatedAttentionCpu, AgreesWithTheReferenceInFloat32) {
  // A sharper gate counts the rounding of g as often.
  for (const auto& of : test_cases(at::kFloat)) expect_exact(of, 1e-5 * of.sharpness);
}

// A gate within rounding of its threshold may fall on either side; one such edge would fail any fixed
// tolerance. So the measure is the plain low-precision form's own error, at most twice over.
void expect_no_worse_than_plain(const AttentionCase& of) {
  SCOPED_TRACE(describe(of));
  const AttentionInputs inputs = make_inputs(of);
  const auto exact = named_results(run_reference(of, inputs.to(at::kDouble)));
  const auto plain = named_results(run_reference(of, inputs));
  const auto seen = named_results(run_operator(of, inputs));
  const double rounding = of.dtype == at::kHalf ? 0x1p-11 : 0x1p-8;  // of results to the dtype itself
  for (size_t n = 0; n < seen.size(); ++n) {
    const double allowed = 2 * relative_error(plain[n].value, exact[n].value) + rounding;
    EXPECT_LE(relative_error(seen[n].value, exact[n].value), allowed) << seen[n].name;
  }
}

TEST_F(GatedAttentionCpu, IsNoWorseThanThePlainFormInBFloat16) {
  for (const auto& of : test_cases(at::kBFloat16)) expect_no_worse_than_plain(of);
}

TEST_F(GatedAttentionCpu, IsNoWorseThanThePlainFormInFloat16) {
  for (const auto& of : test_cases(at::kHalf)) expect_no_worse_than_plain(of);
}

TEST_F(GatedAttentionCpu, AgreesOnRandomShapes) {
  std::mt19937 random(2024);
  const auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int n = 0; n < 40; ++n) {
    AttentionCase of;
    of.B = pick(1, 3), of.Hkv = pick(1, 3), of.H = of.Hkv * pick(1, 3), of.T = pick(1, 150),
    of.d = pick(1, 140);
    of.dtype = at::kDouble;
    of.gate = std::string(pick(0, 1) ? kGateScore : kGateLogProb);
    if (pick(0, 1)) of.seed = -pick(0, 1LL << 60);
    of.first = pick(0, 1000), of.transposed = pick(0, 1), of.bias = static_cast<double>(pick(-2, 5));
    expect_exact(of, 1e-10);
  }
}

// q, k and v with every dimension strided: slices, expanded heads, and a last dimension that is not
// contiguous.
TEST_F(GatedAttentionCpu, ReadsAnyStrides) {
  AttentionCase of;
  of.B = 2, of.H = 4, of.Hkv = 2, of.T = 70, of.d = 20, of.dtype = at::kDouble, of.seed = 9;
  AttentionInputs inputs = make_inputs(of);
  const AttentionGradients wanted = run_operator(of, inputs);
  inputs.q = inputs.q.permute({3, 0, 2, 1}).contiguous().permute({1, 3, 2, 0});
  inputs.k = at::constant_pad_nd(inputs.k, {3, 5, 1, 2}).narrow(2, 1, of.T).narrow(3, 3, of.d);
  inputs.v = at::cat({inputs.v, inputs.v}, -1).narrow(-1, 0, of.d);
  inputs.grad_out = inputs.grad_out.transpose(0, 3).contiguous().transpose(0, 3);
  const auto wanted_results = named_results(wanted), seen = named_results(run_operator(of, inputs));
  for (size_t n = 0; n < seen.size(); ++n)
    EXPECT_TRUE(seen[n].value.equal(wanted_results[n].value)) << seen[n].name;
}

TEST_F(GatedAttentionCpu, TakesExpandedKeys) {
  AttentionCase of;
  of.B = 1, of.H = 3, of.Hkv = 1, of.T = 40, of.d = 16;
  const AttentionInputs inputs = make_inputs(of);
  const auto grouped = gated_attention(inputs.q, inputs.k, inputs.v, inputs.bias);
  const auto expanded = gated_attention(inputs.q, inputs.k.expand({1, 3, 40, 16}),
                                        inputs.v.expand({1, 3, 40, 16}), inputs.bias);
  EXPECT_TRUE(grouped.out.equal(expanded.out));
}

TEST_F(GatedAttentionCpu, SampledBatchCanBeSplitByFirst) {
  AttentionCase of;
  of.B = 4, of.H = 2, of.Hkv = 1, of.T = 90, of.d = 32, of.seed = 31;
  const AttentionInputs inputs = make_inputs(of);
  const auto whole =
      gated_attention(inputs.q, inputs.k, inputs.v, inputs.bias, std::nullopt, of.gate, of.seed, 5);
  const auto part = gated_attention(inputs.q.narrow(0, 1, 2), inputs.k.narrow(0, 1, 2),
                                    inputs.v.narrow(0, 1, 2), inputs.bias, std::nullopt, of.gate, of.seed, 6);
  EXPECT_TRUE(part.out.equal(whole.out.narrow(0, 1, 2)));
  EXPECT_TRUE(part.penalty.equal(whole.penalty.narrow(0, 1, 2)));
  EXPECT_TRUE(part.active.equal(whole.active.narrow(0, 1, 2)));
}

TEST_F(GatedAttentionCpu, IsExactlyCausal) {
  for (const auto gate : {kGateScore, kGateLogProb}) {
    AttentionCase of;
    of.H = of.Hkv = 2, of.T = 100, of.d = 16, of.gate = std::string(gate), of.seed = 3, of.bias = 3;
    AttentionInputs inputs = make_inputs(of);
    inputs.grad_penalty.zero_();
    inputs.grad_out.narrow(2, 37, 63).zero_();  // only rows before 37 are asked about
    const AttentionGradients seen = run_operator(of, inputs);
    for (const Tensor& gradient : {seen.q, seen.k, seen.v}) {
      EXPECT_EQ(gradient.narrow(2, 37, 63).abs().max().item<float>(), 0) << gate;
      EXPECT_GT(gradient.narrow(2, 0, 37).abs().max().item<float>(), 0) << gate;
    }
  }
}

TEST_F(GatedAttentionCpu, ClosesLogProbHeadsWithoutPositiveBias) {
  AttentionCase of;
  of.H = of.Hkv = 2, of.T = 130, of.d = 16, of.gate = std::string(kGateLogProb);
  AttentionInputs inputs = make_inputs(of);
  inputs.bias = at::tensor({0.0f, 0.5f});
  const auto result = gated_attention(inputs.q, inputs.k, inputs.v, inputs.bias, std::nullopt, of.gate);
  EXPECT_EQ(result.active[0][0].item<int64_t>(), 0);
  EXPECT_EQ(result.out.select(1, 0).abs().max().item<float>(), 0);
  EXPECT_GE(result.active[0][1].item<int64_t>(), 1);  // the first row's only edge has P = 1 > exp(-0.5)
}

TEST_F(GatedAttentionCpu, IsPlainAttentionWhenEveryGateIsOpen) {
  AttentionCase of;
  of.B = 2, of.H = 4, of.Hkv = 2, of.T = 150, of.d = 64;
  const AttentionInputs inputs = make_inputs(of);
  const auto result = gated_attention(inputs.q, inputs.k, inputs.v, at::full({4}, 1e6f));
  const Tensor dense = at::scaled_dot_product_attention(inputs.q, inputs.k.repeat_interleave(2, 1),
                                                        inputs.v.repeat_interleave(2, 1), {}, 0.0, true);
  EXPECT_LE(relative_error(result.out, dense), 1e-5);
  EXPECT_TRUE(result.active.eq(150 * 151 / 2).all().item<bool>());
  EXPECT_LE((result.penalty - 1).abs().max().item<float>(), 1e-6f);
}

// Rows longer than the tiles that are kept between logprob's two walks.
TEST_F(GatedAttentionCpu, AgreesOnRowsLongerThanTheKeptTiles) {
  for (const bool sampled : {false, true}) {
    AttentionCase of;
    of.T = 3300, of.d = 8, of.gate = std::string(kGateLogProb), of.bias = 6, of.dtype = at::kDouble;
    if (sampled) of.seed = 1;
    expect_exact(of, 1e-10);
  }
}

TEST_F(GatedAttentionCpu, SurvivesExtremeScoresAndBiases) {
  AttentionCase of;
  of.H = of.Hkv = 2, of.T = 80, of.d = 16, of.seed = 4;
  AttentionInputs inputs = make_inputs(of);
  inputs.q = inputs.q * 1000;
  for (const auto gate : {kGateScore, kGateLogProb}) {
    of.gate = std::string(gate);
    for (const float bias : {-1e5f, 0.0f, 1e5f}) {
      inputs.bias = at::full({2}, bias);
      for (const auto& result : named_results(run_operator(of, inputs))) {
        EXPECT_TRUE(result.value.isfinite().all().item<bool>()) << gate << " " << bias << " " << result.name;
      }
    }
  }
}

// However large b is, pairs that are not causal stay out: a bias of infinity is a gate that is always open.
TEST_F(GatedAttentionCpu, OpensCausalPairsAloneWhateverTheBias) {
  for (const auto gate : kAllGates) {
    for (const bool sampled : {false, true}) {
      for (const double sharpness : {1.0, 4.0}) {
        AttentionCase of;
        of.B = 2, of.H = 4, of.Hkv = 2, of.T = 70, of.d = 16, of.dtype = at::kDouble;
        of.gate = std::string(gate), of.sharpness = sharpness;
        if (sampled) of.seed = 6;
        AttentionInputs inputs = make_inputs(of);
        for (const double bias : {1e25, 1e31, static_cast<double>(INFINITY)}) {
          for (const auto dtype : {at::kDouble, at::kFloat}) {
            of.dtype = dtype;
            inputs.bias = at::full({4}, bias, at::kDouble);
            SCOPED_TRACE(describe(of) + " " + std::to_string(bias));
            const AttentionGradients seen = run_operator(of, inputs.to(dtype));
            EXPECT_TRUE(seen.result.active.eq(70 * 71 / 2).all().item<bool>());
            EXPECT_LE((seen.result.penalty - 1).abs().max().item<double>(), 1e-6);
            inputs.bias = at::full({4}, 1e6, at::kDouble);
            const auto wanted = named_results(run_reference(of, inputs.to(at::kDouble)));
            const auto results = named_results(seen);
            for (size_t n = 0; n < results.size(); ++n)
              EXPECT_LE(relative_error(results[n].value, wanted[n].value), 1e-5) << wanted[n].name;
          }
        }
      }
    }
  }
}

TEST_F(GatedAttentionCpu, ShowsWhatIsNotANumber) {
  for (const auto gate : kAllGates) {
    for (const auto dtype : {at::kDouble, at::kFloat, at::kBFloat16}) {
      AttentionCase of;
      of.H = of.Hkv = 2, of.T = 80, of.d = 20, of.dtype = dtype;
      set_gate(of, gate);
      AttentionInputs inputs = make_inputs(of);
      inputs.k[0][1][40][3] = NAN;
      SCOPED_TRACE(describe(of));
      const Tensor bad = run_operator(of, inputs).result.out.isnan();
      EXPECT_TRUE(bad.equal(run_reference(of, inputs.to(at::kDouble)).result.out.isnan()));
      EXPECT_EQ(bad.sum().item<int64_t>(), 40 * 20);
    }
  }
}

}  // namespace
}  // namespace openwork
