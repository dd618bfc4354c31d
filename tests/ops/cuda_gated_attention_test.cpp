// Holds the GPU kernels to the float64 reference, on the cases every device is tested on and on those that
// only a GPU can get wrong: many heads, wide rows, layouts, padding, repeatability.
#include "ops/cuda_cases.h"

#include <limits>

namespace openwork {
namespace {

using at::Tensor;

class CudaGatedAttention : public OnGpu {
 protected:
  AttentionGradients run_on_gpu(const AttentionCase& of, const AttentionInputs& inputs) const {
    return run_operator(of, inputs.to(gpu_));
  }

  // Results within `tolerance` of the float64 reference of the same inputs, and (low precision) within two and a half
  // times the error that the reference itself makes when it runs in that precision.
  void expect_close(const AttentionCase& of, const AttentionInputs& inputs, double tolerance) const {
    const auto wanted = named_results(run_reference(of, inputs.to(at::kDouble)));
    const AttentionGradients seen = run_on_gpu(of, inputs);
    const auto results = named_results(seen);
    std::vector<NamedTensor> rough;
    if (of.dtype != at::kFloat) rough = named_results(run_reference(of, inputs));
    for (size_t n = 0; n < results.size(); ++n) {
      const double error = relative_error(results[n].value, wanted[n].value);
      EXPECT_LE(error, tolerance) << describe(of) << ": " << results[n].name;
      if (rough.empty()) continue;
      const double yardstick = 2.5 * relative_error(rough[n].value, wanted[n].value) + 2.5e-3 * of.sharpness;
      EXPECT_LE(error, yardstick) << describe(of) << ": " << results[n].name
                                  << ", by the plain form's own error";
    }
    const Tensor active = run_reference(of, inputs.to(at::kDouble)).result.active;
    const Tensor undecided = is_undecided(of, inputs).sum({-2, -1});
    EXPECT_TRUE((seen.result.active.cpu() - active).abs().le(undecided).all().item<bool>()) << describe(of);
  }

  void expect_all_close(at::ScalarType dtype, std::string_view gate, double tolerance) const {
    for (const AttentionCase& of : test_cases(dtype)) {
      // A sharper gate counts the rounding of g as often.
      if (of.gate == gate) expect_close(of, make_inputs(of), tolerance * of.sharpness);
    }
  }
};

// One test a gate: what takes a sanitizer minutes can be run in parts.
class CudaGatedAttentionOf : public CudaGatedAttention,
                             public testing::WithParamInterface<std::string_view> {};

INSTANTIATE_TEST_SUITE_P(Gates, CudaGatedAttentionOf, testing::ValuesIn(kAllGates), name_of_gate);

TEST_P(CudaGatedAttentionOf, AgreesInFloat32) {
  expect_all_close(at::kFloat, GetParam(), 1e-4);
}
TEST_P(CudaGatedAttentionOf, AgreesInBFloat16) {
  expect_all_close(at::kBFloat16, GetParam(), 2e-2);
}
TEST_P(CudaGatedAttentionOf, AgreesInFloat16) {
  expect_all_close(at::kHalf, GetParam(), 2e-2);
}

TEST_F(CudaGatedAttention, AgreesAroundEveryTileEdge) {
  for (const int64_t d : {32, 64, 80, 96, 128, 256}) {
    for (const int64_t T : {15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 193}) {
      AttentionCase of{1, 2, T % 2 ? 1 : 2, T, d, T % 3 ? at::kBFloat16 : at::kHalf};
      for (const auto gate : kAllGates) {
        set_gate(of, gate);
        of.sharpness = gate == kGateIdle ? 1 << T % 3 : 1;
        if ((T + d / 16 + (gate == kGateLogProb)) % 2) of.seed = T * 1000 + d;
        expect_close(of, make_inputs(of), 2e-2);
      }
    }
  }
}

TEST_P(CudaGatedAttentionOf, AgreesOnLongRows) {
  for (const int64_t d : {64, 128}) {
    for (const double sharpness : {1.0, 2.0, 4.0}) {
      AttentionCase of{1, 2, 1, 1100, d, at::kBFloat16};
      set_gate(of, GetParam());
      of.seed = 17;
      of.first = 5;
      of.transposed = true;
      of.sharpness = sharpness;
      expect_close(of, make_inputs(of), 2e-2);
    }
  }
}

// Scores and biases so large that exp(g) = P exp(offset) would overflow or lose P: every row is wide.
TEST_F(CudaGatedAttention, KeepsGatesOfVeryLargeScoresAndBiases) {
  for (const double bias : {-90.0, -30.0, 30.0, 90.0, 1e6, -1e6}) {
    for (const double factor : {1.0, 12.0}) {
      for (const auto gate : kAllGates) {
        AttentionCase of{1, 2, 2, 150, 64, at::kBFloat16, std::string(gate)};
        of.seed = 3;
        of.bias = bias;
        of.sharpness = bias == 90 ? 4 : bias == -30 ? 2 : 1;
        AttentionInputs inputs = make_inputs(of);
        inputs.q = inputs.q * factor;
        expect_close(of, inputs, 2e-2);
        of.seed.reset();
        expect_close(of, inputs, 2e-2);
      }
    }
  }
}

// What idle is at its ends (tests/ops/idle_test.cpp), on the tensor cores, by the plain kernels, and by both
// ways backward may go.
TEST_F(CudaGatedAttention, IdleJoinsTheOtherGates) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const auto& [d, dtype] :
       {std::pair{64, at::kBFloat16}, {128, at::kHalf}, {256, at::kBFloat16}, {64, at::kFloat}}) {
    for (const bool sampled : {false, true}) {
      AttentionCase of{2, 4, 2, 133, d, dtype};
      set_gate(of, kGateIdle);
      of.sharpness = sampled ? 2 : 1;
      if (sampled) of.seed = 5;
      // Where an idle score of 30 is taken off again, g is rounded: an edge drawn that near to its gate may turn.
      const double tolerance = dtype != at::kFloat ? 2e-2 : sampled ? 5e-2 : 1e-4;
      AttentionInputs inputs = make_inputs(of);
      AttentionCase other = of;
      const auto expect_alike = [&](const Tensor& idle, const Tensor& bias, const Tensor& other_bias) {
        AttentionInputs with = inputs, without = inputs;
        with.idle = idle, with.bias = bias, without.idle = Tensor(), without.bias = other_bias;
        const auto seen = named_results(run_on_gpu(of, with)),
                   wanted = named_results(run_on_gpu(other, without));
        for (size_t n = 0; n < wanted.size(); ++n) {
          EXPECT_LE(relative_error(seen[n].value, wanted[n].value), tolerance)
              << describe(of) << " as " << other.gate << ": " << seen[n].name;
        }
        return seen.back().value;
      };
      other.gate = std::string(kGateLogProb);
      const Tensor lowest = at::full_like(inputs.bias, -infinity);
      EXPECT_EQ(expect_alike(lowest, inputs.bias, inputs.bias).abs().max().item<float>(), 0);
      other.gate = std::string(kGateScore);
      const Tensor difference = at::linspace(-1, 1, of.H, inputs.bias.options());
      expect_alike(at::full_like(inputs.bias, 30), difference + 30, difference);
      inputs.idle = at::full_like(inputs.bias, infinity);
      const AttentionGradients closed = run_on_gpu(of, inputs);
      EXPECT_EQ(closed.result.active.max().item<int64_t>(), 0);
      for (const auto& result : named_results(closed)) {
        EXPECT_EQ(result.value.abs().max().item<float>(), 0) << describe(of) << ": " << result.name;
      }
    }
  }
}

TEST_F(CudaGatedAttention, IdleSurvivesExtremeScoresBiasesAndIdles) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const auto& [d, dtype] :
       {std::pair{64, at::kBFloat16}, {96, at::kHalf}, {256, at::kBFloat16}, {40, at::kFloat}}) {
    for (const auto& [a, b] : {std::pair{200.f, 200.f},
                               {-200.f, 200.f},
                               {200.f, -200.f},
                               {1e5f, 1e5f},
                               {-1e5f, -1e5f},
                               {infinity, 200.f},
                               {-infinity, -200.f}}) {
      for (const double sharpness : {1.0, 4.0}) {
        AttentionCase of{1, 2, 1, 77, d, dtype, std::string(kGateIdle)};
        of.sharpness = sharpness;
        of.seed = 6;
        AttentionInputs inputs = make_inputs(of);
        inputs.q = inputs.q * 30;
        inputs.idle = at::full_like(inputs.bias, a);
        inputs.bias = at::full_like(inputs.bias, b);
        for (const auto& result : named_results(run_on_gpu(of, inputs))) {
          EXPECT_TRUE(result.value.isfinite().all().item<bool>())
              << describe(of) << " a " << a << " b " << b << ": " << result.name;
        }
      }
    }
  }
}

// Rows whose largest score keeps growing from left to right, so that the softmax reference must rise.
TEST_F(CudaGatedAttention, FollowsScoresThatGrowAlongTheRow) {
  AttentionCase of{1, 1, 1, 300, 64, at::kBFloat16};
  of.seed = 4;
  AttentionInputs inputs = make_inputs(of);
  inputs.k = inputs.k.abs() * at::arange(300, at::kBFloat16).view({1, 1, 300, 1}) / 40;
  inputs.q = inputs.q.abs();
  expect_close(of, inputs, 2e-2);
}

TEST_F(CudaGatedAttention, TakesMoreThan65535Heads) {
  AttentionCase of{257, 256, 128, 5, 32, at::kBFloat16};
  of.seed = 9;
  expect_close(of, make_inputs(of), 2e-2);
}

TEST_F(CudaGatedAttention, TakesAnyLayout) {
  const AttentionCase of{2, 2, 2, 40, 64, at::kBFloat16};
  const AttentionInputs inputs = make_inputs(of);
  const auto wanted = named_results(run_on_gpu(of, inputs));
  AttentionInputs strided = inputs.to(gpu_);
  strided.q = at::stack({strided.q, strided.q}, -1).select(-1, 0);     // every second element
  strided.k = at::constant_pad_nd(strided.k, {3, 0}).slice(3, 3);      // rows that start off alignment
  strided.v = strided.v.transpose(2, 3).contiguous().transpose(2, 3);  // columns contiguous
  const auto seen = named_results(run_operator(of, strided));
  for (size_t n = 0; n < seen.size(); ++n) EXPECT_TRUE(seen[n].value.equal(wanted[n].value)) << seen[n].name;
}

TEST_F(CudaGatedAttention, TakesRowsThatStandForSeveral) {
  const AttentionCase of{3, 4, 4, 70, 64, at::kBFloat16};
  for (const int64_t dim : {0, 1, 2}) {
    AttentionInputs whole = make_inputs(of).to(gpu_), expanded = whole;
    for (const auto member : {&AttentionInputs::q, &AttentionInputs::grad_out}) {
      expanded.*member = (whole.*member).narrow(dim, 0, 1).expand_as(whole.*member);
      whole.*member = (expanded.*member).clone(at::MemoryFormat::Contiguous);
    }
    const auto wanted = named_results(run_operator(of, whole)),
               seen = named_results(run_operator(of, expanded));
    for (size_t n = 0; n < seen.size(); ++n) {
      EXPECT_LE(relative_error(seen[n].value, wanted[n].value), 1e-2) << seen[n].name << " of dim " << dim;
    }
  }
}

TEST_F(CudaGatedAttention, TakesAnyScale) {
  const AttentionCase of{1, 2, 1, 70, 64, at::kBFloat16};
  const AttentionInputs on_gpu = make_inputs(of).to(gpu_);
  for (const double scale : {-0.2, 0.0, 0.01, 1.0}) {
    const auto seen =
        gated_attention(on_gpu.q, on_gpu.k, on_gpu.v, on_gpu.bias, std::nullopt, kGateScore, 5, 0, scale);
    const AttentionInputs exact = make_inputs(of).to(at::kDouble);
    const auto wanted = gated_attention_reference(exact.q, exact.k, exact.v, exact.bias, std::nullopt,
                                                  kGateScore, 5, 0, scale);
    EXPECT_LE(relative_error(seen.out, wanted.out), 2e-2) << scale;
    EXPECT_LE(relative_error(seen.penalty, wanted.penalty), 1e-4) << scale;
  }
}

TEST_F(CudaGatedAttention, TakesEmptyInputs) {
  for (const auto& [B, T] : {std::pair<int64_t, int64_t>{0, 8}, {2, 0}}) {
    const AttentionCase of{B, 2, 1, T, 64, at::kBFloat16};
    const AttentionGradients seen = run_on_gpu(of, make_inputs(of));
    EXPECT_EQ(seen.result.out.sizes(), at::IntArrayRef({B, 2, T, 64}));
    EXPECT_TRUE(seen.result.active.eq(0).all().item<bool>());
    EXPECT_TRUE(seen.bias.eq(0).all().item<bool>());
  }
}

TEST_F(CudaGatedAttention, RefusesWhatNoKernelTakes) {
  const auto message_of = [&](const AttentionCase& of) -> std::string {
    try {
      run_on_gpu(of, make_inputs(of));
    } catch (const c10::Error& error) {
      return error.what_without_backtrace();
    }
    return "no error";
  };
  EXPECT_THAT(message_of({1, 1, 1, 4, 8, at::kDouble}), testing::HasSubstr("float32, bfloat16 or float16"));
  EXPECT_THAT(message_of({1, 1, 1, 4, 264, at::kBFloat16}), testing::HasSubstr("head size 264"));
}

TEST_F(CudaGatedAttention, RepeatsBitForBitWhenAskedToBeDeterministic) {
  at::globalContext().setDeterministicAlgorithms(true, false);
  for (const auto gate : kAllGates) {
    AttentionCase of{2, 4, 2, 333, gate == kGateScore ? 64 : 128, at::kBFloat16};
    set_gate(of, gate);
    of.seed = 21;
    of.sharpness = gate == kGateLogProb ? 4 : 1;
    const AttentionInputs inputs = make_inputs(of);
    expect_close(of, inputs, 2e-2 * of.sharpness);  // by the passes that run then
    const auto first = named_results(run_on_gpu(of, inputs));
    for (int repeat = 0; repeat < 5; ++repeat) {
      const auto again = named_results(run_on_gpu(of, inputs));
      for (size_t n = 0; n < first.size(); ++n)
        EXPECT_TRUE(first[n].value.equal(again[n].value)) << first[n].name;
    }
  }
  at::globalContext().setDeterministicAlgorithms(false, false);
}

}  // namespace
}  // namespace openwork
