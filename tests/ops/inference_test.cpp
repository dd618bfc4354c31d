// z by the kernel that skips what is closed, against the operator and dense attention.
#include "ops/gated_inference.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "ops/gated_attention.h"

namespace openwork {
namespace {

using at::Tensor;

constexpr float kWithoutEnd = std::numeric_limits<float>::infinity();

struct InferenceInputs {
  Tensor q, k, v, bias, idle;
};

InferenceInputs make_inference_inputs(int64_t H, int64_t G, int64_t T, int64_t d, at::ScalarType dtype) {
  at::manual_seed(7);
  const auto options = at::TensorOptions().dtype(at::kDouble);
  const auto some = [&](int64_t heads, double size) {
    return (size * at::randn({2, T, heads, d}, options)).to(dtype).transpose(1, 2);
  };
  return {some(H, 2), some(G, 1), some(G, 1), at::linspace(-1, 5, H, at::kFloat),
          at::linspace(-2, 6, H, at::kFloat)};
}

Tensor by_reference(const InferenceInputs& in, GateKind gate) {
  const auto wide = [](const Tensor& x) { return x.to(at::kDouble); };
  std::optional<Tensor> idle;
  if (gate == GateKind::kIdle) idle = wide(in.idle);
  return gated_attention_reference(wide(in.q), wide(in.k), wide(in.v), wide(in.bias), idle, gate_name(gate))
      .out;
}

// Of the edges near their border either answer is right: rows that differ by a whole edge are few.
void expect_same_rows(const Tensor& seen, const Tensor& wanted, double tolerance, const std::string& name) {
  ASSERT_EQ(seen.sizes(), wanted.sizes()) << name;
  const Tensor row = (seen.to(at::kDouble) - wanted).abs().amax(-1);
  EXPECT_LE((row > tolerance).to(at::kDouble).mean().item<double>(), 1e-3)
      << name << " differs by " << row.max().item<double>();
}

double inference_scale(const InferenceInputs& in) {
  return 1 / std::sqrt(static_cast<double>(in.q.size(3)));
}

TEST(GatedInference, IsTheOperatorForEveryGate) {
  for (const GateKind gate : {GateKind::kScore, GateKind::kLogprob, GateKind::kIdle}) {
    for (const auto& [dtype, tolerance] : {std::pair{at::kFloat, 2e-5}, {at::kDouble, 1e-11}}) {
      for (const int64_t T : {1, 7, 64, 65, 150}) {
        for (const int64_t d : {5, 64}) {
          const InferenceInputs in = make_inference_inputs(6, 3, T, d, dtype);
          const Tensor seen =
              gated_inference(in.q, in.k, in.v, in.bias, gate == GateKind::kIdle ? in.idle : Tensor(), gate,
                              inference_scale(in));
          expect_same_rows(seen, by_reference(in, gate), tolerance,
                           fmt::format("{} T {} d {}", gate_name(gate), T, d));
        }
      }
    }
  }
}

TEST(GatedInference, ReadsBehindACacheWhatTheWholeTextReads) {
  const InferenceInputs in = make_inference_inputs(4, 2, 203, 32, at::kFloat);
  const Tensor whole = by_reference(in, GateKind::kIdle);
  for (const int64_t last : {1, 3, 8, 70, 203}) {
    const Tensor seen = gated_inference(in.q.narrow(2, 203 - last, last), in.k, in.v, in.bias, in.idle,
                                        GateKind::kIdle, inference_scale(in));
    expect_same_rows(seen, whole.narrow(2, 203 - last, last), 2e-5, fmt::format("the last {}", last));
  }
}

TEST(GatedInference, GivesTheLastRowsOfTheOperatorForEveryGateAndOddSizes) {
  for (const GateKind gate : {GateKind::kScore, GateKind::kLogprob, GateKind::kIdle}) {
    for (const auto& [K, d] : {std::pair<int64_t, int64_t>{1, 3}, {2, 8}, {33, 20}, {131, 7}, {257, 100}}) {
      const InferenceInputs in = make_inference_inputs(6, 2, K, d, at::kFloat);
      const Tensor whole = by_reference(in, gate);
      for (const int64_t last : {1, 2, 9}) {
        if (last > K) continue;
        const Tensor seen =
            gated_inference(in.q.narrow(2, K - last, last), in.k, in.v, in.bias,
                            gate == GateKind::kIdle ? in.idle : Tensor(), gate, inference_scale(in));
        expect_same_rows(seen, whole.narrow(2, K - last, last), 2e-5,
                         fmt::format("{} K {} d {} the last {}", gate_name(gate), K, d, last));
      }
    }
  }
}

TEST(GatedInference, RowsWithoutAnOpenEdgeAreZero) {
  const InferenceInputs in = make_inference_inputs(4, 2, 50, 16, at::kFloat);
  const Tensor never = at::full({4}, -1e4, at::kFloat), far = at::full({4}, 1e4, at::kFloat);
  for (const int64_t last : {1, 50}) {
    const Tensor q = in.q.narrow(2, 50 - last, last);
    const double scale = inference_scale(in);
    EXPECT_TRUE(gated_inference(q, in.k, in.v, never, {}, GateKind::kScore, scale).eq(0).all().item<bool>());
    EXPECT_TRUE(
        gated_inference(q, in.k, in.v, in.bias, far, GateKind::kIdle, scale).eq(0).all().item<bool>());
  }
}

TEST(GatedInference, SaysWhatItWasGivenAndWhatItWants) {
  const InferenceInputs in = make_inference_inputs(4, 2, 9, 8, at::kFloat);
  const auto message = [&](const auto& call) -> std::string {
    try {
      call();
    } catch (const c10::Error& error) {
      return error.what_without_backtrace();
    }
    return "nothing was wrong";
  };
  const auto infer = [&](const Tensor& q, const Tensor& bias, const Tensor& idle, GateKind gate,
                         const Tensor& heads = {}) {
    return message([&] { gated_inference(q, in.k, in.v, bias, idle, gate, 1, heads); });
  };
  using testing::HasSubstr;
  EXPECT_THAT(infer(in.q, {}, {}, GateKind::kScore), HasSubstr("gate is 'score' and bias is missing"));
  EXPECT_THAT(infer(in.q, in.bias, in.idle, GateKind::kLogprob), HasSubstr("idle is given; none is wanted"));
  EXPECT_THAT(infer(in.q, in.bias, {}, GateKind::kIdle), HasSubstr("idle is missing; a tensor [H]"));
  EXPECT_THAT(infer(in.q.narrow(1, 0, 3), in.bias.narrow(0, 0, 3), {}, GateKind::kScore),
              HasSubstr("3 heads over 2 key/value heads"));
  EXPECT_THAT(infer(in.q, in.bias.to(at::kHalf), {}, GateKind::kScore), HasSubstr("bias has dtype Half"));
  EXPECT_THAT(infer(in.q.to(at::kHalf), in.bias, {}, GateKind::kScore), HasSubstr("one is wanted"));
  EXPECT_THAT(infer(in.q, in.bias, {}, GateKind::kScore, at::full({4}, 2, at::kLong)),
              HasSubstr("key_of_query has 2; an index below k's 2 heads"));
  const Tensor graded = in.q.clone().set_requires_grad(true);
  EXPECT_THAT(infer(graded, in.bias, {}, GateKind::kScore), HasSubstr("a gradient was asked for"));
  const at::NoGradGuard no_grad;
  EXPECT_EQ(infer(graded, in.bias, {}, GateKind::kScore), "nothing was wrong");
}

TEST(GatedInference, HasAShapeWithoutNumbersAndNothingOfNothing) {
  const InferenceInputs in = make_inference_inputs(4, 2, 9, 8, at::kBFloat16);
  const auto meta = [](const Tensor& x) { return x.to(at::kMeta); };
  const Tensor shape = gated_inference(meta(in.q.narrow(2, 7, 2)), meta(in.k), meta(in.v), meta(in.bias),
                                       meta(in.idle), GateKind::kIdle, 1);
  EXPECT_EQ(shape.sizes(), in.q.narrow(2, 7, 2).sizes());
  EXPECT_EQ(shape.scalar_type(), at::kBFloat16);
  EXPECT_EQ(gated_inference(in.q.narrow(2, 0, 0), in.k, in.v, in.bias, in.idle, GateKind::kIdle, 1).numel(),
            0);
}

TEST(GatedInference, GoesBeyondTheTilesItKeeps) {
  const InferenceInputs in = make_inference_inputs(2, 1, 64 * 50 + 9, 16, at::kFloat);
  std::optional<Tensor> idle = in.idle;
  const Tensor wanted = gated_attention(in.q, in.k, in.v, in.bias, idle, kGateIdle).out.to(at::kDouble);
  expect_same_rows(gated_inference(in.q, in.k, in.v, in.bias, in.idle, GateKind::kIdle, inference_scale(in)),
                   wanted, 2e-5, "long");
}

TEST(GatedInference, WithoutAGateIsDenseAttention) {
  const InferenceInputs in = make_inference_inputs(4, 4, 90, 24, at::kFloat);
  const Tensor whole = at::scaled_dot_product_attention(in.q.to(at::kDouble), in.k.to(at::kDouble),
                                                        in.v.to(at::kDouble), {}, 0.0, /*is_causal=*/true);
  for (const int64_t last : {1, 90}) {
    const Tensor seen = gated_inference(in.q.narrow(2, 90 - last, last), in.k, in.v, {}, {}, GateKind::kNone,
                                        inference_scale(in));
    EXPECT_LE((seen.to(at::kDouble) - whole.narrow(2, 90 - last, last)).abs().max().item<double>(), 1e-5);
  }
}

TEST(GatedInference, HeadsReadTheKeysTheyAreTold) {
  const InferenceInputs in = make_inference_inputs(3, 2, 40, 16, at::kFloat);
  const Tensor index = at::tensor(std::vector<int64_t>{1, 0, 1});
  InferenceInputs own = in;
  own.k = in.k.index_select(1, index), own.v = in.v.index_select(1, index);
  for (const int64_t last : {1, 40}) {
    const Tensor seen = gated_inference(in.q.narrow(2, 40 - last, last), in.k, in.v, in.bias, in.idle,
                                        GateKind::kIdle, inference_scale(in), index);
    expect_same_rows(seen, by_reference(own, GateKind::kIdle).narrow(2, 40 - last, last), 2e-5,
                     "uneven groups");
  }
}

TEST(GatedInference, ClosedHeadsAreExactZerosAtEveryEnd) {
  InferenceInputs in = make_inference_inputs(4, 4, 70, 16, at::kFloat);
  in.bias = at::tensor(std::vector<float>{0, -3, 4, 4});
  in.idle = at::tensor(std::vector<float>{-kWithoutEnd, 1, kWithoutEnd, -kWithoutEnd});
  for (const int64_t last : {2, 70}) {
    const Tensor z = gated_inference(in.q.narrow(2, 70 - last, last), in.k, in.v, in.bias, in.idle,
                                     GateKind::kIdle, inference_scale(in));
    EXPECT_EQ(z.narrow(1, 0, 3).abs().max().item<float>(), 0);
    expect_same_rows(z.narrow(1, 3, 1),
                     by_reference(in, GateKind::kIdle).narrow(2, 70 - last, last).narrow(1, 3, 1), 2e-5,
                     "logprob's row");
  }
}

TEST(GatedInference, LowPrecisionIsRoundedOnce) {
  const InferenceInputs in = make_inference_inputs(4, 2, 130, 64, at::kBFloat16);
  const Tensor seen =
      gated_inference(in.q, in.k, in.v, in.bias, in.idle, GateKind::kIdle, inference_scale(in));
  EXPECT_EQ(seen.scalar_type(), at::kBFloat16);
  expect_same_rows(seen, by_reference(in, GateKind::kIdle), 2e-2, "bf16");
}

}  // namespace
}  // namespace openwork
