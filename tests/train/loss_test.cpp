// The loss of a step: its terms are the formula's, and it is the same however the batch is cut.
#include "train/loss.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "train/run_fixture.h"

namespace openwork {
namespace {

struct Models {
  Transformer dense = load_model("tests/data/gpt2");
  TrainedWeights trained = TinyRun::make(std::nullopt, GateKind::kIdle);
  at::Tensor tokens = (at::arange(12 * 17, at::kLong) * 31 % 97).view({12, 17});

  PassLoss measure(int64_t first, int64_t count, const LossOptions& options) {
    GateDraw draw;
    draw.seed = 11, draw.first = first;
    return compute_pass_loss(trained.pass_model(), &dense, tokens.narrow(0, first, count), draw,
                             at::scalar_tensor(0.5, at::kDouble), options);
  }
};

// KL of samples 0, every, 2 every, ..., written out.
double distance_by_hand(Models& models, int64_t every) {
  const at::NoGradGuard no_grad;
  ForwardOptions forward;
  forward.draw.seed = 11;
  const at::Tensor ids = models.tokens.narrow(1, 0, 16);
  const at::Tensor given = models.trained.pass_model().forward(ids, forward).log_softmax(-1);
  const at::Tensor wanted = models.dense.forward(ids).log_softmax(-1);
  const at::Tensor by_token = (wanted.exp() * (wanted - given)).sum(-1);  // [samples, T]
  return by_token.slice(0, 0, at::nullopt, every).mean().item<double>();
}

TEST(LossOfAStep, WeighsCrossEntropyAndDistanceByTheMultiplier) {
  Models models;
  const PassLoss loss = models.measure(0, 12, {.head_penalty = 0, .distill = 2, .distill_every = 1});
  const double penalty = loss.penalty.item<double>(), entropy = loss.cross_entropy.item<double>(),
               distance = loss.distance.item<double>();
  EXPECT_NEAR(distance, distance_by_hand(models, 1), 1e-5);
  EXPECT_GT(distance, 1e-3);
  EXPECT_NEAR(loss.loss.item<double>(), (penalty + 0.5 * (entropy + 2 * distance)) / 1.5, 1e-5);
}

TEST(LossOfAStep, TakesTheDistanceOfEveryNthSampleOfTheBatch) {
  Models models;
  const LossOptions options{.distill = 1, .distill_every = 4};
  EXPECT_NEAR(models.measure(0, 12, options).distance.item<double>(), distance_by_hand(models, 4), 1e-5);
}

TEST(LossOfAStep, IsTheSameHoweverTheBatchIsCut) {
  Models models;
  const LossOptions options{.head_penalty = 0.1, .distill = 1, .distill_every = 4};
  const PassLoss whole = models.measure(0, 12, options);
  double loss = 0, distance = 0;
  for (const auto& [first, count] : {std::pair{0, 3}, {3, 1}, {4, 5}, {9, 3}}) {  // the last: no chosen one
    const PassLoss part = models.measure(first, count, options);
    loss += part.loss.item<double>() * count / 12;
    distance += part.distance.item<double>() * count / 12;
  }
  EXPECT_NEAR(loss, whole.loss.item<double>(), 1e-5);
  EXPECT_NEAR(distance, whole.distance.item<double>(), 1e-5);
}

}  // namespace
}  // namespace openwork
