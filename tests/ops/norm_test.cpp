// Norms and linear layers where no kernel of the GPU takes them: what ATen's calls make of each.
#include "ops/norm.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "ops/linear.h"

namespace openwork {
namespace {

using at::Tensor;

Tensor make(at::IntArrayRef sizes) {
  return at::randn(sizes, at::kDouble).set_requires_grad(true);
}

TEST(NormalisedSum, IsTheNormOfTheSum) {
  const Tensor x = make({3, 10}), added = make({3, 10}), weight = make({10}), bias = make({10});
  const NormedSum layer = normalise_sum(x, added, {weight, bias, 1e-3, true});
  const Tensor s = x + added, centred = s - s.mean(-1, true);
  EXPECT_TRUE(layer.sum.equal(s));
  EXPECT_TRUE(layer.normal.allclose(centred / (centred.square().mean(-1, true) + 1e-3).sqrt() * weight + bias,
                                    1e-12, 1e-12));
  const NormedSum rms = normalise_sum(x, added, {weight, {}, 1e-3, false});
  EXPECT_TRUE(rms.normal.allclose(s / (s.square().mean(-1, true) + 1e-3).sqrt() * weight, 1e-12, 1e-12));
}

TEST(NormalisedSum, OfNothingAddedIsWhatItIsOf) {
  const Tensor x = make({3, 10});
  for (const bool centred : {false, true}) {
    const NormedSum made = normalise_sum(x, {}, {{}, {}, 1e-3, centred});  // no weight either
    EXPECT_TRUE(made.sum.is_same(x));
    EXPECT_TRUE(made.normal.equal(normalise(x, {{}, {}, 1e-3, centred})));
    const Tensor from = centred ? x - x.mean(-1, true) : x;
    EXPECT_TRUE(made.normal.allclose(from / (from.square().mean(-1, true) + 1e-3).sqrt(), 1e-12, 1e-12));
  }
}

TEST(LinearTogether, IsEachByItself) {
  const Tensor x = make({2, 5, 6}), a = make({4, 6}), b = make({6, 3}), bias = make({3});
  // adds_to_grad is the GPU's: here gradients arrive as they do anywhere.
  const std::vector<Tensor> made = linear_together(x, {{a, {}, false, true}, {b, bias, true, true}});
  ASSERT_EQ(made.size(), 2u);
  EXPECT_TRUE(made[0].equal(at::linear(x, a)));
  EXPECT_TRUE(made[1].equal(at::linear(x, b.t(), bias)));
  (made[0].sum() + made[1].sum()).backward();
  const Tensor rows = x.detach().flatten(0, 1);
  EXPECT_TRUE(a.grad().allclose(rows.sum(0).expand({4, 6})));
  EXPECT_TRUE(b.grad().allclose(rows.sum(0).unsqueeze(1).expand({6, 3})));
}

}  // namespace
}  // namespace openwork
