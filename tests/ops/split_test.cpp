// Thirds of rows and their gradients: put together without a copy where they lie together, with one where not.
#include "ops/split.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

namespace openwork {
namespace {

using at::Tensor;

TEST(SplitInThree, GivesTheThirds) {
  const Tensor x = at::arange(24, at::kFloat).view({2, 2, 6});
  const auto wanted = x.chunk(3, -1);
  for (const bool graded : {false, true}) {
    const auto seen = split_in_three(x.detach().requires_grad_(graded));
    for (size_t n = 0; n < 3; ++n) {
      EXPECT_TRUE(seen[n].equal(wanted[n]));
      EXPECT_TRUE(seen[n].is_alias_of(x));
      EXPECT_EQ(seen[n].requires_grad(), graded);
    }
  }
}

TEST(SplitInThree, IsGivenBackOneBufferWithoutACopy) {
  const Tensor x = at::randn({2, 5, 12}).requires_grad_();
  const auto parts = split_in_three(x);
  const Tensor whole = at::randn({2, 5, 12});
  const auto thirds = whole.chunk(3, -1);
  const Tensor seen =
      torch::autograd::grad({parts[0], parts[1], parts[2]}, {x}, {thirds[0], thirds[1], thirds[2]})[0];
  EXPECT_TRUE(seen.equal(whole));
  EXPECT_EQ(seen.const_data_ptr(), whole.const_data_ptr());
}

TEST(SplitInThree, PutsOthersTogether) {
  const Tensor x = at::randn({2, 5, 12}).requires_grad_();
  const Tensor whole = at::randn({2, 5, 12});
  const auto thirds = whole.chunk(3, -1);
  const auto gradient = [&](const std::vector<size_t>& order, bool apart) {
    const auto parts = split_in_three(x);
    std::vector<Tensor> outputs, given;
    for (const size_t n : order) {
      outputs.push_back(parts[n]);
      given.push_back(apart ? thirds[n].clone() : thirds[2 - n]);
    }
    return torch::autograd::grad(outputs, {x}, given)[0];
  };
  EXPECT_TRUE(gradient({0, 1, 2}, true).equal(whole));
  EXPECT_TRUE(gradient({0, 1, 2}, false).equal(at::cat({thirds[2], thirds[1], thirds[0]}, -1)));
  EXPECT_TRUE(gradient({0, 2}, true).equal(at::cat({thirds[0], at::zeros_like(thirds[1]), thirds[2]}, -1)));
}

TEST(Thirds, AreKnownByTheirMemory) {
  const Tensor rows = at::zeros({2, 5, 12});
  const auto parts = rows.chunk(3, -1);
  const auto by_head = [](const Tensor& x) { return x.reshape({2, 5, 2, 2}).transpose(1, 2); };
  EXPECT_TRUE(are_thirds(parts[0], parts[1], parts[2]));
  EXPECT_TRUE(are_thirds(by_head(parts[0]), by_head(parts[1]), by_head(parts[2])));
  const auto heads = rows.view({2, 5, 2, 6}).chunk(3, -1);  // each head's own three
  EXPECT_TRUE(are_thirds(heads[0], heads[1], heads[2]));
  EXPECT_FALSE(are_thirds(parts[0], parts[2], parts[1]));
  EXPECT_FALSE(are_thirds(parts[0], parts[1], parts[1]));
  EXPECT_FALSE(are_thirds(parts[0], parts[1], parts[2].clone()));
  const auto fourths = rows.chunk(4, -1);  // one is missing
  EXPECT_FALSE(are_thirds(fourths[0], fourths[1], fourths[2]));
  const auto overlapping = [&](int64_t from) { return rows.as_strided({2, 3}, {1, 1}, from); };
  EXPECT_FALSE(are_thirds(overlapping(0), overlapping(7), overlapping(14)));
}

TEST(Thirds, HaveRoomLaidOutAlike) {
  const auto parts = at::zeros({2, 5, 12}).narrow(0, 0, 2).chunk(3, -1);
  const auto made = empty_thirds(parts[0], parts[1], parts[2]);
  EXPECT_TRUE(are_thirds(made[0], made[1], made[2]));
  for (size_t n = 0; n < 3; ++n) {
    EXPECT_EQ(made[n].strides(), parts[n].strides());
    made[n].fill_(static_cast<double>(n));
  }
  for (size_t n = 0; n < 3; ++n) EXPECT_TRUE(made[n].eq(static_cast<double>(n)).all().item<bool>());
}

}  // namespace
}  // namespace openwork
