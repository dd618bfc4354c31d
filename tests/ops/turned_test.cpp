// Gated attention that turns queries and keys to their positions itself (ops/gated_attention.h), on the CPU.
#include "ops/turned_cases.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <gmock/gmock.h>

#include "ops/arguments.h"

namespace openwork {
namespace {

using at::Tensor;
using testing::HasSubstr;

TEST(TurnedGatedAttention, IsTurningAndGatedAttentionOneAfterTheOther) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
    for (const AttentionCase& of : test_cases(dtype)) {
      const AttentionInputs inputs = make_inputs(of);
      for (const int64_t half : {of.d / 2, of.d / 8}) {
        if (half > 0) expect_turned_as_in_two(of, inputs, half, dtype == at::kDouble ? 1e-13 : 1e-6);
      }
    }
  }
}

TEST(TurnedGatedAttention, WithoutGradientsIsTheSame) {
  AttentionCase of{2, 4, 2, 65, 16, at::kFloat};
  set_gate(of, kGateIdle);
  const AttentionInputs in = make_inputs(of);
  const Turns turns = make_turns(in.q, 8);
  const GatedAttentionResult with =
      turned_gated_attention(turns, in.q, in.k, in.v, in.bias, in.idle, of.gate);
  const at::NoGradGuard no_grad;
  const GatedAttentionResult without =
      turned_gated_attention(turns, in.q, in.k, in.v, in.bias, in.idle, of.gate);
  EXPECT_TRUE(with.out.equal(without.out));
  EXPECT_TRUE(with.active.equal(without.active));
}

std::string error_with(const std::optional<Tensor>& cosine, const std::optional<Tensor>& sine) {
  const Tensor q = at::zeros({2, 4, 6, 8}), none = at::empty({0});
  const auto backward = c10::Dispatcher::singleton()
                            .findSchemaOrThrow("openwork::gated_attention_backward", "")
                            .typed<BackwardKernel>();
  try {
    backward.call(q, at::zeros({2, 4}), q, q, q, at::zeros({4}), std::nullopt, q, at::zeros({2, 4, 6}), none,
                  none, "score", std::nullopt, 0, 1, 1, cosine, sine);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

TEST(TurnedGatedAttention, TablesAreChecked) {
  const Tensor table = at::zeros({6, 4});
  EXPECT_EQ(error_with(table, table), "no error");
  EXPECT_EQ(error_with(at::zeros({6, 0}), at::zeros({6, 0})), "no error");
  EXPECT_THAT(error_with(table, std::nullopt), HasSubstr("cosine is given alone"));
  EXPECT_THAT(error_with(std::nullopt, table), HasSubstr("sine is given alone"));
  EXPECT_THAT(error_with(at::zeros({5, 4}), table), HasSubstr("cosine has shape [5, 4]"));
  EXPECT_THAT(error_with(table, at::zeros({6, 3})), HasSubstr("sine has shape [6, 3]"));
  EXPECT_THAT(error_with(table.to(at::kDouble), table), HasSubstr("cosine has dtype Double"));
  EXPECT_THAT(error_with(at::zeros({6, 5}), at::zeros({6, 5})), HasSubstr("half of the head size 8"));
  EXPECT_THAT(error_with(at::zeros({6}), table), HasSubstr("cosine has shape [6]"));
}

}  // namespace
}  // namespace openwork
