// Linear layers of few rows against the same product in float64, and against themselves row by row.
#include "ops/few_rows.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

namespace openwork {
namespace {

using at::Tensor;

Tensor draw(at::IntArrayRef sizes, at::ScalarType dtype) {
  return at::randn(sizes, at::kDouble).to(dtype);
}

double tolerance_of(at::ScalarType dtype) {
  return dtype == at::kFloat ? 1e-6 : dtype == at::kHalf ? 1e-3 : 8e-3;
}

// By the largest number of what was wanted.
void expect_near(const Tensor& got, const Tensor& wanted, double tolerance) {
  ASSERT_EQ(got.sizes(), wanted.sizes());
  const double largest = wanted.abs().max().item<double>();
  EXPECT_LT((got.to(at::kDouble) - wanted).abs().max().item<double>(), tolerance * largest);
}

struct Shape {
  int64_t rows, inputs, outputs;
};

class FewRows : public testing::TestWithParam<at::ScalarType> {};

// Sizes that fill vectors and tasks, that do not, that are smaller than one, and more rows than the kernel takes.
TEST_P(FewRows, IsTheProduct) {
  at::manual_seed(1);
  const at::ScalarType dtype = GetParam();
  for (const Shape& shape : {Shape{1, 576, 1536}, Shape{1, 3, 2}, Shape{1, 17, 700}, Shape{4, 65, 1000},
                             Shape{8, 256, 31}, Shape{9, 100, 50}, Shape{3, 2000, 129}}) {
    for (const bool transposed : {false, true}) {
      const Tensor x = draw({shape.rows, shape.inputs}, dtype), bias = draw({shape.outputs}, dtype);
      const Tensor stored = transposed ? draw({shape.inputs, shape.outputs}, dtype)
                                       : draw({shape.outputs, shape.inputs}, dtype);
      const Tensor weight = transposed ? stored.t() : stored;
      SCOPED_TRACE(testing::Message() << shape.rows << " rows, " << shape.inputs << " to " << shape.outputs
                                      << (transposed ? ", transposed" : ""));
      const Tensor product = at::matmul(x.to(at::kDouble), weight.to(at::kDouble).t());
      expect_near(few_rows_linear(x, weight), product, tolerance_of(dtype));
      expect_near(few_rows_linear(x, weight, bias), product + bias.to(at::kDouble), tolerance_of(dtype));
    }
  }
}

TEST_P(FewRows, ARowKnowsNothingOfTheOthers) {
  at::manual_seed(2);
  const Tensor x = draw({2, 3, 96}, GetParam()), weight = draw({333, 96}, GetParam());
  const Tensor together = few_rows_linear(x, weight);
  EXPECT_EQ(together.sizes(), (at::IntArrayRef{2, 3, 333}));
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t t = 0; t < 3; ++t)
      EXPECT_TRUE(at::equal(few_rows_linear(x[b][t], weight), together[b][t])) << b << ", " << t;
}

TEST_P(FewRows, ReadsPartsOfLargerTensors) {
  at::manual_seed(3);
  const Tensor x = draw({1, 5, 80}, GetParam()).select(1, 2), whole = draw({200, 100}, GetParam());
  const Tensor weight = whole.narrow(0, 20, 90).narrow(1, 10, 80);
  expect_near(few_rows_linear(x, weight), at::matmul(x.to(at::kDouble), weight.to(at::kDouble).t()),
              tolerance_of(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Types, FewRows, testing::Values(at::kFloat, at::kBFloat16, at::kHalf),
                         [](const auto& info) { return std::string(c10::toString(info.param)); });

TEST(FewRowsGradients, AreAtensWhereTheyAreWanted) {
  const at::AutoGradMode on(true);
  const Tensor x = at::randn({1, 8}).requires_grad_(true), weight = at::randn({4, 8});
  const Tensor y = few_rows_linear(x, weight);
  ASSERT_TRUE(y.requires_grad());
  y.sum().backward();
  EXPECT_TRUE(at::allclose(x.grad(), weight.sum(0, true)));
}

TEST(FewRowsSpecial, NothingIsLostThatIsNotFinite) {
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor x = at::tensor({1.0F, inf}).unsqueeze(0), weight = at::eye(2);
  const Tensor y = few_rows_linear(x, weight);
  EXPECT_TRUE(std::isnan(y[0][0].item<float>()));  // 1 + 0 * inf
  EXPECT_EQ(y[0][1].item<float>(), inf);
}

}  // namespace
}  // namespace openwork
