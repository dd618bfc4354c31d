// The CPU's kernels for single rows, against the same in float64; and that work given to threads is shared by them.
#include "ops/rowwise.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <thread>

#include "ops/fused.h"
#include "ops/threads.h"

namespace openwork {
namespace {

using at::Tensor;

// Half a unit in the last place of a number near 1, and a little more for the float sums before it.
double tolerance(at::ScalarType dtype) {
  return dtype == at::kFloat ? 1e-6 : dtype == at::kHalf ? 6e-4 : 4.5e-3;
}

double largest_error(const Tensor& seen, const Tensor& wanted) {
  const Tensor error = (seen.to(at::kDouble) - wanted).abs() / (wanted.abs() + 1);
  return error.max().item<double>();
}

class Rowwise : public testing::TestWithParam<at::ScalarType> {
 protected:
  Tensor numbers(at::IntArrayRef sizes) const { return at::randn(sizes, at::kDouble).to(GetParam()); }
  static Tensor wide(const Tensor& x) { return x.to(at::kDouble); }
};
INSTANTIATE_TEST_SUITE_P(Dtypes, Rowwise, testing::Values(at::kFloat, at::kBFloat16, at::kHalf),
                         [](const auto& info) { return std::string(c10::toString(info.param)); });

TEST_P(Rowwise, NormsAreOverTheRootMeanSquare) {
  at::manual_seed(1);
  for (const int64_t width : {1, 7, 16, 33, 576, 2048}) {
    const Tensor x = numbers({2, 3, width}), weight = numbers({width});
    const Tensor root = (wide(x).square().mean(-1, true) + 1e-5).sqrt();
    EXPECT_LT(largest_error(rms_norm_rows(x, weight, 1e-5), wide(x) / root * wide(weight)),
              tolerance(GetParam()))
        << width;
    EXPECT_LT(largest_error(rms_norm_rows(x, {}, 1e-5), wide(x) / root), tolerance(GetParam())) << width;
  }
}

TEST_P(Rowwise, ProductsWithSilu) {
  at::manual_seed(2);
  for (const int64_t count : {1, 15, 16, 40, 70001}) {
    const Tensor gate = numbers({count}) * 4, linear = numbers({count});
    const Tensor wanted = wide(gate) * wide(gate).sigmoid() * wide(linear);
    EXPECT_LT(largest_error(silu_product_rows(gate, linear), wanted), tolerance(GetParam())) << count;
  }
  const Tensor far = at::tensor({-200.0, 200.0}, at::kDouble).to(GetParam());
  const Tensor seen = silu_product_rows(far, at::ones_like(far)).to(at::kDouble);
  EXPECT_NEAR(seen[0].item<double>(), 0, 1e-6);
  EXPECT_NEAR(seen[1].item<double>(), 200, 1e-3);
}

TEST_P(Rowwise, RotaryPairsAreTurned) {
  at::manual_seed(3);
  for (const auto& [d, half] : {std::pair<int64_t, int64_t>{64, 32}, {80, 10}, {6, 3}, {40, 20}}) {
    const Tensor x = numbers({2, 3, 3, d}), angles = at::rand({3, half}, at::kDouble) * 6;
    const Tensor cosine = angles.cos().to(GetParam()), sine = angles.sin().to(GetParam());
    const Tensor c = wide(cosine).unsqueeze(1), s = wide(sine).unsqueeze(1);
    const Tensor first = wide(x).narrow(-1, 0, half), second = wide(x).narrow(-1, half, half);
    const Tensor wanted = at::cat(
        {first * c - second * s, second * c + first * s, wide(x).narrow(-1, 2 * half, d - 2 * half)}, -1);
    EXPECT_LT(largest_error(rotate_pairs(x, cosine, sine), wanted), tolerance(GetParam())) << d;
    // Strided rows, as a projection of q, k and v together has them.
    const Tensor part = at::cat({x, x}, 2).narrow(2, 3, 3);
    EXPECT_TRUE(at::equal(rotate_pairs(part, cosine, sine), rotate_pairs(x, cosine, sine)));
  }
}

TEST_P(Rowwise, GradientsTakeTheOtherWay) {
  const Tensor x = numbers({1, 2, 2, 8}).set_requires_grad(true);
  EXPECT_FALSE(is_rowwise(x));
  const Tensor angles = at::rand({2, 4}).to(GetParam());
  EXPECT_TRUE(rotate_pairs(x, angles, angles).requires_grad());
  EXPECT_TRUE(silu_product(x, x).requires_grad());
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(is_rowwise(x));
  EXPECT_FALSE(is_rowwise(numbers({3, 3, 8})));  // more tokens than a step has
}

TEST(ShareRange, EveryPartOnceAndByMoreThanOneThread) {
  const int before = at::get_num_threads();
  at::set_num_threads(2);
  std::mutex lock;
  std::set<std::thread::id> threads;
  std::vector<int> seen(1000);
  int parts = 0;
  share_range(1000, 10, [&](int64_t begin, int64_t end) {
    const std::lock_guard guard(lock);
    threads.insert(std::this_thread::get_id());
    ++parts;
    for (int64_t n = begin; n < end; ++n) ++seen[static_cast<size_t>(n)];
  });
  at::set_num_threads(before);
  EXPECT_THAT(seen, testing::Each(1));
  EXPECT_EQ(parts, 2);
  EXPECT_EQ(threads.size(), 2u);  // ATen's parallel_for gives each part to a thread of its own
}

}  // namespace
}  // namespace openwork
