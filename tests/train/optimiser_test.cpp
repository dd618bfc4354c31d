// The optimiser against PyTorch's, the schedule's shape, and the multiplier as a controller.
#include "train/optimiser.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "model/golden.h"
#include "model/load.h"
#include "train/loss.h"
#include "train/multiplier.h"
#include "train/schedule.h"

namespace openwork {
namespace {

TEST(AdamW, EqualsPyTorchAfterOneAndTwentySteps) {
  const auto golden = read_golden("tests/data/adamw.safetensors");
  const Transformer start = load_model("tests/data/gpt2");
  TrainedWeights weights(start.config(), start.parameters(), {});
  AdamW optimiser(weights, {.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1, .clip = 1});
  const at::Tensor tokens = golden.at("tokens");
  for (int64_t step = 1; step <= 20; ++step) {
    weights.zero_gradients();
    const PassLoss pass = compute_pass_loss(weights.pass_model(), nullptr, {tokens}, {});
    EXPECT_NEAR(pass.cross_entropy.item<double>(), golden.at("losses")[step - 1].item<double>(), 1e-5)
        << "step " << step;
    pass.loss.backward();
    optimiser.step({3e-3, 3e-3, 0, 0});
    weights.refresh();
    if (step != 1 && step != 20) continue;
    int compared = 0;
    for (const TrainedTensor& tensor : weights.tensors()) {
      const std::string name = "after_" + std::to_string(step) + "." + tensor.name;
      if (!golden.contains(name)) continue;
      at::Tensor seen = weights.master(tensor), wanted = golden.at(name);
      if (tensor.name.ends_with("attn.c_attn.bias")) {
        // Softmax does not see a key bias: its gradient is rounding noise, and AdamW makes whole steps of
        // noise.
        const auto without_keys = [](const at::Tensor& bias) {
          const auto parts = bias.chunk(3);
          return at::cat({parts[0], parts[2]});
        };
        seen = without_keys(seen), wanted = without_keys(wanted);
      }
      expect_close(seen, wanted, name, 1e-5, 0);
      ++compared;
    }
    EXPECT_EQ(compared, 6);
  }
}

TEST(AdamW, LeavesTheWeightsWhereAGradientIsNotFinite) {
  const Transformer start = load_model("tests/data/gpt2");
  TrainedWeights weights(start.config(), start.parameters(), {});
  AdamW optimiser(weights, {});
  const at::Tensor before = weights.masters().clone();
  const_cast<at::Tensor&>(weights.gradients()).fill_(0.1);
  const_cast<at::Tensor&>(weights.gradients())[3] = std::nan("");
  const at::Tensor norm = optimiser.step({1e-2, 1e-2, 1e-2, 1e-2});
  EXPECT_FALSE(std::isfinite(norm.item<double>()));
  EXPECT_TRUE(at::equal(weights.masters(), before));
  const_cast<at::Tensor&>(weights.gradients()).fill_(0.1);
  optimiser.step({1e-2, 1e-2, 1e-2, 1e-2});
  EXPECT_FALSE(at::equal(weights.masters(), before));
}

TEST(TrainedWeights, TheBfloat16CopyFollowsTheMasters) {
  const Transformer start = load_model("tests/data/gpt2");
  TrainedWeights weights(start.config(), start.parameters(), {.dtype = at::kBFloat16});
  EXPECT_EQ(weights.pass_model().dtype(), at::kBFloat16);
  AdamW optimiser(weights, {});
  const at::Tensor tokens = at::arange(34, at::kLong).view({2, 17});
  const at::Tensor before = weights.masters().clone();
  for (int step = 0; step < 2; ++step) {
    weights.zero_gradients();
    compute_pass_loss(weights.pass_model(), nullptr, {tokens}, {}).loss.backward();
    weights.collect_gradients();
    optimiser.step({1e-4, 1e-4, 0, 0});  // changes too small for bfloat16 to hold one by one
    weights.refresh();
  }
  EXPECT_FALSE(at::equal(weights.masters(), before));
  for (const TrainedTensor& tensor : weights.tensors()) {
    EXPECT_TRUE(at::equal(tensor.leaf.detach(), weights.master(tensor).to(at::kBFloat16))) << tensor.name;
  }
}

TEST(Schedule, TheHeadPenaltyMovesOverTheFirstHalf) {
  EXPECT_DOUBLE_EQ(Schedule{}.head_penalty(3, 0.4), 3);
  const Schedule moved{.head_penalty_end = 1};
  EXPECT_DOUBLE_EQ(moved.head_penalty(3, 0), 3);
  EXPECT_DOUBLE_EQ(moved.head_penalty(3, 0.25), 2);
  EXPECT_DOUBLE_EQ(moved.head_penalty(3, 0.75), 1);
}

TEST(Schedule, WarmsUpStaysAndDecays) {
  const Schedule schedule{
      .warmup = 0.1, .decay = 0.2, .noise_anneal = 0.25, .bias_shift = -2, .target_slack = 0.5};
  EXPECT_DOUBLE_EQ(schedule.learning_rate(0), 0);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(0.05), 0.5);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(0.1), 1);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(0.8), 1);
  EXPECT_NEAR(schedule.learning_rate(0.9), 0.5, 1e-12);
  EXPECT_NEAR(schedule.learning_rate(1), 0, 1e-12);
  EXPECT_NEAR(schedule.gate_bias_shift(0.4), -1, 1e-12);
  EXPECT_DOUBLE_EQ(schedule.gate_bias_shift(0.95), -2);
  EXPECT_DOUBLE_EQ(schedule.target(3, 0.01), 3.5);
  EXPECT_DOUBLE_EQ(schedule.target(3, 0.5), 3.5);
  EXPECT_NEAR(schedule.target(3, 0.9), 3.25, 1e-12);
}

TEST(Schedule, TurnsTheNoiseOffByEverMoreHardSteps) {
  const Schedule schedule{.noise_anneal = 0.3};
  const auto hard_share = [&](double progress) {
    int hard = 0;
    for (int64_t step = 0; step < 1000; ++step) hard += schedule.hard_gates(progress, step);
    return hard / 1000.0;
  };
  EXPECT_EQ(hard_share(0.69), 0);
  EXPECT_FALSE(schedule.is_annealing(0.69));
  EXPECT_TRUE(schedule.is_annealing(0.71));
  EXPECT_NEAR(hard_share(0.835), 0.5, 0.01);
  EXPECT_LT(hard_share(0.96), 1);
  EXPECT_EQ(hard_share(0.9701), 1);
  EXPECT_EQ(hard_share(1), 1);
  EXPECT_FALSE((Schedule{.noise_anneal = 0}.hard_gates(1, 0)));
}

TEST(Schedule, RoundedWeightsComeOnAtOnceOrOverARamp) {
  EXPECT_EQ(Schedule{}.rounded_share(1), 0);
  const Schedule at_once{.rounding = 0.25};
  EXPECT_EQ(at_once.rounded_share(0.74), 0);
  EXPECT_EQ(at_once.rounded_share(0.75), 1);
  const Schedule ramp{.rounding = 0.5, .rounding_ramp = 0.25};
  EXPECT_EQ(ramp.rounded_share(0.49), 0);
  EXPECT_DOUBLE_EQ(ramp.rounded_share(0.5625), 0.25);
  EXPECT_DOUBLE_EQ(ramp.rounded_share(0.6875), 0.75);
  EXPECT_EQ(ramp.rounded_share(0.75), 1);
  EXPECT_EQ(ramp.rounded_share(1), 1);
  EXPECT_NO_THROW(check_schedule({.rounding = 0.3, .rounding_ramp = 0.3}));
  EXPECT_THROW(check_schedule({.rounding = 0.3, .rounding_ramp = 0.31}), Error);
}

TEST(Schedule, TheIdleScoreMovesLikeTheBias) {
  const Schedule schedule{.decay = 0.2, .idle_shift = 3};
  EXPECT_DOUBLE_EQ(schedule.gate_idle_shift(0), 0);
  EXPECT_NEAR(schedule.gate_idle_shift(0.4), 1.5, 1e-12);
  EXPECT_DOUBLE_EQ(schedule.gate_idle_shift(0.9), 3);
}

TEST(Schedule, SharpnessDoublesAtEqualSharesOfTheRun) {
  const auto at = [](double from, double to, double progress) {
    return Schedule{.sharpness = from, .sharpness_end = to}.gate_sharpness(progress);
  };
  for (const double progress : {0.0, 0.5, 1.0}) EXPECT_EQ(at(2, 2, progress), 2);
  EXPECT_EQ(at(1, 4, 0.32), 1);
  EXPECT_EQ(at(1, 4, 0.34), 2);
  EXPECT_EQ(at(1, 4, 0.67), 4);
  EXPECT_EQ(at(1, 4, 1), 4);
  EXPECT_EQ(at(1, 2, 0.49), 1);
  EXPECT_EQ(at(1, 2, 0.51), 2);
  EXPECT_EQ(at(4, 1, 0.5), 2);
  EXPECT_EQ(at(4, 1, 1), 1);
  EXPECT_THROW(check_schedule({.sharpness = 3}), Error);
  EXPECT_THROW(check_schedule({.sharpness_end = 8}), Error);
}

TEST(Schedule, RefusesSharesThatOverlap) {
  EXPECT_THROW(check_schedule({.warmup = 0.6, .decay = 0.6}), Error);
  EXPECT_THROW(check_schedule({.warmup = -0.1}), Error);
  EXPECT_THROW(check_schedule({.noise_anneal = 1.5}), Error);
  EXPECT_NO_THROW(check_schedule({}));
}

// A toy with a trade-off: x is how open the gates are, the loss rises as they close.
TEST(Multiplier, DrivesTheLossToItsTarget) {
  Multiplier multiplier({.start = 1, .rate = 1, .smoothing = 0.5}, at::kCPU);
  double x = 1;
  const double target = 3.1;
  for (int step = 0; step < 5000; ++step) {
    const double lambda = multiplier.lambda().item<double>();
    const double loss = 3 + 0.5 * (1 - x) * (1 - x);
    const double slope = (1 - lambda * (1 - x)) / (1 + lambda);  // of (x + lambda * loss) / (1 + lambda)
    x = std::clamp(x - 0.02 * slope, 0.0, 1.0);
    multiplier.update(at::scalar_tensor(loss, at::kDouble), target);
  }
  EXPECT_NEAR(multiplier.read().average, target, 0.01);
  EXPECT_LT(x, 0.7);
}

TEST(Multiplier, StaysWithinItsBoundsAndWarnsOnce) {
  Multiplier multiplier({.start = 1, .lowest = 0.5, .highest = 2, .rate = 5}, at::kCPU);
  std::optional<std::string> warning;
  int warnings = 0;
  for (int step = 0; step < 100; ++step) {
    multiplier.update(at::scalar_tensor(9.0), 3);
    if (const auto said = multiplier.warn(multiplier.read(), 3, 10)) warning = said, ++warnings;
  }
  EXPECT_DOUBLE_EQ(multiplier.read().lambda, 2);
  EXPECT_EQ(warnings, 1);
  EXPECT_NE(warning.value_or("").find("cannot be reached at this learning rate"), std::string::npos);
  for (int step = 0; step < 200; ++step) multiplier.update(at::scalar_tensor(1.0), 3);
  EXPECT_DOUBLE_EQ(multiplier.read().lambda, 0.5);
}

TEST(Multiplier, HeldAtItsBoundWarnsOfNothing) {
  Multiplier multiplier({.start = 2, .lowest = 0.5, .highest = 2, .rate = 0}, at::kCPU);
  for (int step = 0; step < 100; ++step) {
    multiplier.update(at::scalar_tensor(9.0), 3);
    EXPECT_FALSE(multiplier.warn(multiplier.read(), 3, 10)) << step;
  }
  EXPECT_DOUBLE_EQ(multiplier.read().lambda, 2);
}

}  // namespace
}  // namespace openwork
