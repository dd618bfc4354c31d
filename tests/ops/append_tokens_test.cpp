// What a cache takes in, against turning and copying by hand.
#include "ops/append_tokens.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/append_cases.h"
#include "ops/fused.h"

namespace openwork {
namespace {

using at::Tensor;

TEST(AppendTokens, TurnsAndCopiesAsByHand) {
  for (const AppendCase& of : append_cases()) {
    const AppendInputs in = make_append_inputs(of, at::kFloat);
    const AppendResult seen = run_append(of, in, at::kCPU);
    const auto turned = [&](const Tensor& x) { return of.half ? rotate_pairs(x, in.cosine, in.sine) : x; };
    EXPECT_TRUE(seen.q.equal(turned(in.q)));
    const auto written = [&](const Tensor& cache) { return cache.narrow(2, of.at, of.T).transpose(1, 2); };
    EXPECT_TRUE(written(seen.keys).equal(turned(in.k)));
    EXPECT_TRUE(written(seen.values).equal(in.v));
    // What the cache held, and its free room, stay as they were.
    for (const Tensor& cache : {seen.keys, seen.values}) {
      const int64_t after = of.at + of.T;
      EXPECT_TRUE(cache.narrow(2, 0, of.at).eq(7).all().item<bool>());
      EXPECT_TRUE(cache.narrow(2, after, cache.size(2) - after).eq(7).all().item<bool>());
    }
  }
}

TEST(AppendTokens, RefusesWhatDoesNotFit) {
  AppendCase of = append_cases().front();
  const AppendInputs in = make_append_inputs(of, at::kFloat);
  of.at = of.capacity - of.T + 1;
  EXPECT_THROW(run_append(of, in, at::kCPU), c10::Error);
  of.at = 0;
  AppendInputs graded = in;
  graded.k = in.k.clone().set_requires_grad(true);
  EXPECT_THROW(run_append(of, graded, at::kCPU), c10::Error);
}

}  // namespace
}  // namespace openwork
