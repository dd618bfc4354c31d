// GELU by its tanh formula on the CPU: values and gradients against ATen's in float64, at every length of the
// last, partly filled vector, and at the ends of the range.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/fused.h"

namespace openwork {
namespace {

using at::Tensor;

TEST(GeluTanh, IsAtensInFloat64) {
  for (const int64_t count : {1, 3, 15, 16, 17, 33, 100001}) {
    const Tensor x = at::linspace(-12, 12, count, at::kFloat);
    const Tensor wanted = at::gelu(x.to(at::kDouble), "tanh");
    const Tensor seen = gelu_tanh(x).to(at::kDouble);
    EXPECT_LE((seen - wanted).abs().max().item<double>(), 2e-6) << count;
    const Tensor relative = ((seen - wanted).abs() / (wanted.abs() + 1e-12)).masked_select(x > -5);
    // The exponent is about 17 there, and each of its few roundings is up to 1e-6 of the result.
    if (relative.numel() > 0) {
      EXPECT_LE(relative.max().item<double>(), 4e-6) << count;
    }
  }
}

TEST(GeluTanh, GradientIsAtens) {
  const Tensor x = at::randn({7, 13}, at::kFloat).set_requires_grad(true);
  const Tensor exact = x.detach().to(at::kDouble).set_requires_grad(true);
  gelu_tanh(x).square().sum().backward();
  at::gelu(exact, "tanh").square().sum().backward();
  EXPECT_LE((x.grad().to(at::kDouble) - exact.grad()).abs().max().item<double>(), 1e-5);
}

TEST(GeluTanh, TakesAnyLayoutAndAnyNumber) {
  const Tensor x = at::randn({6, 10}, at::kFloat);
  EXPECT_TRUE(at::allclose(gelu_tanh(x.t()), at::gelu(x.t(), "tanh"), 1e-5, 1e-6));
  const float infinity = std::numeric_limits<float>::infinity();
  const Tensor ends = gelu_tanh(at::tensor({infinity, 1e30f, -1e4f, 0.0f, std::nanf("")}));
  EXPECT_EQ(ends[0].item<float>(), infinity);
  EXPECT_FLOAT_EQ(ends[1].item<float>(), 1e30f);
  EXPECT_NEAR(ends[2].item<float>(), 0, 1e-12);
  EXPECT_EQ(ends[3].item<float>(), 0);
  EXPECT_TRUE(std::isnan(ends[4].item<float>()));
}

}  // namespace
}  // namespace openwork
