// Bad arguments get an error that names the argument, the value seen and the value wanted; empty ones get the
// empty answer; meta tensors get shapes.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/arguments.h"
#include "ops/cases.h"

namespace openwork {
namespace {

using at::Tensor;
using testing::HasSubstr;

// The error of a call, or "no error".
template <typename Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

struct Arguments {
  Tensor q = at::zeros({2, 4, 6, 8}), k = at::zeros({2, 2, 6, 8}), v = at::zeros({2, 2, 6, 8});
  Tensor bias = at::zeros({4});
  std::optional<Tensor> idle;
  std::string gate = "score";
  int64_t first = 0;
  double sharpness = 1;
};

std::string error_of(const Arguments& of) {
  return error_of([&] {
    gated_attention(of.q, of.k, of.v, of.bias, of.idle, of.gate, std::nullopt, of.first, std::nullopt,
                    of.sharpness);
  });
}

TEST(GatedAttentionArguments, GoodOnesPass) {
  EXPECT_EQ(error_of(Arguments{}), "no error");
}

TEST(GatedAttentionArguments, UnknownGateIsNamed) {
  Arguments of;
  of.gate = "sigmoid";
  EXPECT_THAT(error_of(of), HasSubstr("gate is 'sigmoid'; 'score', 'logprob' or 'idle' is wanted"));
}

TEST(GatedAttentionArguments, WrongRanksAreNamed) {
  Arguments of;
  of.q = at::zeros({4, 6, 8});
  EXPECT_THAT(error_of(of), HasSubstr("q has shape [4, 6, 8]; [B, H, T, d] is wanted"));
  of = {};
  of.bias = at::zeros({4, 1});
  EXPECT_THAT(error_of(of), HasSubstr("bias has shape [4, 1]; [H] is wanted"));
}

TEST(GatedAttentionArguments, WrongSizesAreNamed) {
  Arguments of;
  of.k = at::zeros({3, 2, 6, 8});
  EXPECT_THAT(error_of(of), HasSubstr("k has shape [3, 2, 6, 8]; its size 0 must be 2"));
  of = {};
  of.v = at::zeros({2, 2, 7, 8});
  EXPECT_THAT(error_of(of), HasSubstr("v has shape [2, 2, 7, 8]; its size 2 must be 6"));
  of = {};
  of.v = at::zeros({2, 4, 6, 8});
  EXPECT_THAT(error_of(of), HasSubstr("v has shape [2, 4, 6, 8]; its size 1 must be 2"));
  of = {};
  of.k = at::zeros({2, 2, 6, 9});
  EXPECT_THAT(error_of(of), HasSubstr("its size 3 must be 8"));
  of = {};
  of.bias = at::zeros({2});
  EXPECT_THAT(error_of(of), HasSubstr("bias has shape [2]; its size 0 must be 4"));
}

TEST(GatedAttentionArguments, KeyHeadsMustDivideQueryHeads) {
  Arguments of;
  of.k = of.v = at::zeros({2, 3, 6, 8});
  EXPECT_THAT(error_of(of), HasSubstr("k has 3 heads; a divisor of q's 4 is wanted"));
  of.k = of.v = at::zeros({2, 0, 6, 8});
  EXPECT_THAT(error_of(of), HasSubstr("k has 0 heads"));
}

TEST(GatedAttentionArguments, WrongDtypesAreNamed) {
  Arguments of;
  of.q = of.q.to(at::kLong);
  EXPECT_THAT(error_of(of), HasSubstr("q has dtype Long"));
  of = {};
  of.v = of.v.to(at::kBFloat16);
  EXPECT_THAT(error_of(of), HasSubstr("v has dtype BFloat16; Float is wanted"));
  of = {};
  of.bias = of.bias.to(at::kDouble);
  EXPECT_THAT(error_of(of), HasSubstr("bias has dtype Double; float32 or q's Float is wanted"));
}

TEST(GatedAttentionArguments, OtherDevicesAreNamed) {
  Arguments of;
  of.k = of.k.to(at::kMeta);
  EXPECT_THAT(error_of(of), HasSubstr("k is on meta; q's device cpu is wanted"));
}

TEST(GatedAttentionArguments, UndefinedSparseAndHeadlessTensorsAreRefused) {
  Arguments of;
  of.k = of.k.to_sparse();
  EXPECT_THAT(error_of(of), HasSubstr("layout"));
  of = {};
  of.q = at::zeros({2, 4, 6, 0}), of.k = of.v = at::zeros({2, 2, 6, 0});
  EXPECT_THAT(error_of(of), HasSubstr("head size of at least 1"));
  of = {};
  of.q = at::zeros({2, 0, 6, 8}), of.bias = at::zeros({0});
  EXPECT_THAT(error_of(of), HasSubstr("at least one head"));
}

TEST(GatedAttentionArguments, NegativeFirstIsRefused) {
  Arguments of;
  of.first = -1;
  EXPECT_THAT(error_of(of), HasSubstr("first is -1"));
}

TEST(GatedAttentionArguments, IdleIsWantedByItsGateAndRefusedByTheOthers) {
  Arguments of;
  of.gate = "idle";
  EXPECT_THAT(error_of(of), HasSubstr("gate is 'idle' and idle is missing; a tensor [H] is wanted"));
  of.idle = at::zeros({4});
  EXPECT_EQ(error_of(of), "no error");
  for (const std::string gate : {"score", "logprob"}) {
    of.gate = gate;
    EXPECT_THAT(error_of(of),
                HasSubstr("idle is given and gate is '" + gate + "'; only gate 'idle' takes it"));
  }
}

TEST(GatedAttentionArguments, WrongIdlesAreNamed) {
  Arguments of;
  of.gate = "idle";
  of.idle = at::zeros({4, 1});
  EXPECT_THAT(error_of(of), HasSubstr("idle has shape [4, 1]; [H] is wanted"));
  of.idle = at::zeros({2});
  EXPECT_THAT(error_of(of), HasSubstr("idle has shape [2]; its size 0 must be 4"));
  of.idle = at::zeros({4}, at::kDouble);
  EXPECT_THAT(error_of(of), HasSubstr("idle has dtype Double; float32 or q's Float is wanted"));
  of.idle = at::zeros({4}, at::kMeta);
  EXPECT_THAT(error_of(of), HasSubstr("idle is on meta; q's device cpu is wanted"));
}

TEST(GatedAttentionArguments, SharpnessIsOneTwoOrFour) {
  Arguments of;
  for (const double good : {1.0, 2.0, 4.0}) {
    of.sharpness = good;
    EXPECT_EQ(error_of(of), "no error");
  }
  for (const double bad : {0.0, -1.0, 3.0, 8.0, 1.5, static_cast<double>(NAN)}) {
    of.sharpness = bad;
    EXPECT_THAT(error_of(of), HasSubstr("; 1, 2 or 4 is wanted"));
  }
  of.sharpness = 3;
  EXPECT_THAT(error_of(of), HasSubstr("sharpness is 3"));
}

TEST(GatedAttentionArguments, TheReferenceChecksThemToo) {
  const Arguments of;
  EXPECT_THAT(error_of([&] { gated_attention_reference(of.q, of.k, of.v, of.bias, std::nullopt, "none"); }),
              HasSubstr("gate is 'none'"));
  EXPECT_THAT(error_of([&] { gate_uniforms(1, 1, -2, 0); }), HasSubstr("T = -2"));
}

TEST(GatedAttentionArguments, BackwardChecksWhatItIsGiven) {
  const Arguments of;
  const auto backward = c10::Dispatcher::singleton()
                            .findSchemaOrThrow("openwork::gated_attention_backward", "")
                            .typed<BackwardKernel>();
  const Tensor none = at::empty({0});
  const auto call = [&](const Tensor& grad_out, const Tensor& grad_penalty, const Tensor& log_sum_exp,
                        const Tensor& slope_sums) {
    return error_of([&] {
      backward.call(grad_out, grad_penalty, of.q, of.k, of.v, of.bias, std::nullopt, of.q, log_sum_exp, none,
                    slope_sums, "score", std::nullopt, 0, 1, 1, std::nullopt, std::nullopt);
    });
  };
  const Tensor row_sums = at::zeros({2, 4, 6}), penalty = at::zeros({2, 4});
  EXPECT_EQ(call(of.q, penalty, row_sums, none), "no error");
  EXPECT_THAT(call(at::zeros({2, 4, 5, 8}), penalty, row_sums, none),
              HasSubstr("grad_out has shape [2, 4, 5, 8]"));
  EXPECT_THAT(call(of.q, at::zeros({2, 3}), row_sums, none), HasSubstr("grad_penalty has shape [2, 3]"));
  EXPECT_THAT(call(of.q, penalty, at::zeros({2, 4, 7}), none), HasSubstr("log_sum_exp has shape [2, 4, 7]"));
  EXPECT_THAT(call(of.q, penalty, row_sums.to(at::kDouble), none), HasSubstr("log_sum_exp has dtype Double"));
  EXPECT_EQ(call(of.q, penalty, row_sums, row_sums), "no error");
  EXPECT_THAT(call(of.q, penalty, row_sums, at::zeros({2, 4, 7})),
              HasSubstr("slope_sums has shape [2, 4, 7]"));
}

TEST(GatedAttentionArguments, EmptyBatchesAndSequencesGiveEmptyAnswers) {
  for (const auto& [B, T] : {std::pair<int64_t, int64_t>{0, 6}, {2, 0}, {0, 0}}) {
    for (const auto gate : kAllGates) {
      AttentionCase of;
      of.B = B, of.H = 4, of.Hkv = 2, of.T = T, of.d = 8, of.gate = std::string(gate), of.seed = 1;
      const AttentionGradients seen = run_operator(of, make_inputs(of));
      EXPECT_EQ(seen.result.out.sizes(), (std::vector<int64_t>{B, 4, T, 8}));
      EXPECT_EQ(seen.result.penalty.sizes(), (std::vector<int64_t>{B, 4}));
      EXPECT_EQ(seen.k.sizes(), (std::vector<int64_t>{B, 2, T, 8}));
      if (B > 0) {
        EXPECT_EQ(seen.result.penalty.abs().max().item<float>(), 0);
        EXPECT_EQ(seen.result.active.max().item<int64_t>(), 0);
      }
      EXPECT_EQ(seen.bias.abs().max().item<float>(), 0);
      if (gate == kGateIdle) {
        EXPECT_EQ(seen.idle.abs().max().item<float>(), 0);
      }
    }
  }
}

TEST(GatedAttentionArguments, BiasMayBeFloat32BesideAnyDtype) {
  for (const auto dtype : {at::kDouble, at::kBFloat16, at::kHalf}) {
    Arguments of;
    of.q = of.q.to(dtype), of.k = of.k.to(dtype), of.v = of.v.to(dtype);
    EXPECT_EQ(error_of(of), "no error");
    of.bias = of.bias.to(dtype);
    EXPECT_EQ(error_of(of), "no error");
  }
}

TEST(GatedAttentionResults, HaveTheContractsDtypes) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    AttentionCase of;
    of.H = of.Hkv = 2, of.T = 9, of.d = 8, of.dtype = dtype;
    const AttentionGradients seen = run_operator(of, make_inputs(of));
    EXPECT_EQ(seen.result.out.scalar_type(), dtype);
    EXPECT_EQ(seen.result.penalty.scalar_type(), dtype == at::kDouble ? at::kDouble : at::kFloat);
    EXPECT_EQ(seen.result.active.scalar_type(), at::kLong);
    EXPECT_EQ(seen.q.scalar_type(), dtype);
    EXPECT_EQ(seen.k.scalar_type(), dtype);
  }
}

TEST(GatedAttentionMeta, GivesShapesDtypesAndGradients) {
  AttentionCase of;
  of.B = 2, of.H = 4, of.Hkv = 2, of.T = 33, of.d = 24, of.dtype = at::kBFloat16, of.seed = 3;
  set_gate(of, kGateIdle);
  const AttentionInputs inputs = make_inputs(of);
  const AttentionGradients real = run_operator(of, inputs);
  const AttentionGradients meta = run_operator(of, inputs.to(at::Device(at::kMeta)));
  const auto real_results = named_results(real), meta_results = named_results(meta);
  for (size_t n = 0; n < real_results.size(); ++n) {
    EXPECT_TRUE(meta_results[n].value.is_meta()) << meta_results[n].name;
    EXPECT_EQ(meta_results[n].value.sizes(), real_results[n].value.sizes()) << meta_results[n].name;
    EXPECT_EQ(meta_results[n].value.scalar_type(), real_results[n].value.scalar_type())
        << meta_results[n].name;
  }
  EXPECT_EQ(meta.result.active.sizes(), real.result.active.sizes());
  EXPECT_EQ(meta.result.active.scalar_type(), at::kLong);
}

TEST(GatedAttentionMeta, ChecksArguments) {
  const Tensor q = at::zeros({1, 2, 3, 4}, at::kMeta);
  EXPECT_THAT(error_of([&] { gated_attention(q, q, q, at::zeros({3}, at::kMeta)); }),
              HasSubstr("bias has shape [3]"));
}

}  // namespace
}  // namespace openwork
