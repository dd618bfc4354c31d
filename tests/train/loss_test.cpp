// The loss of a step: its terms are the formula's, and it is the same however the batch is cut.
#include "train/loss.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "train/run_fixture.h"
#include "train/starting_point.h"

namespace openwork {
namespace {

struct Models {
  Transformer dense = load_model("tests/data/gpt2");
  TrainedWeights trained = TinyRun::make(std::nullopt, GateKind::kIdle);
  at::Tensor tokens = (at::arange(12 * 17, at::kLong) * 31 % 97).view({12, 17});

  PassLoss measure(int64_t first, int64_t count, const LossOptions& options) {
    GateDraw draw;
    draw.seed = 11, draw.first = first;
    return compute_pass_loss(trained.pass_model(), &dense,
                             {tokens.narrow(0, first, count), draw, at::scalar_tensor(0.5, at::kDouble)},
                             options);
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

// Cross-entropy and distance from whole logits, left to autograd.
at::Tensor loss_by_hand(const Transformer& model, const Transformer& dense, const at::Tensor& tokens,
                        const LossOptions& options, double lambda) {
  const int64_t T = tokens.size(1) - 1;
  const at::Tensor ids = tokens.narrow(1, 0, T), targets = tokens.narrow(1, 1, T).flatten();
  GateTotals gates;
  ForwardOptions forward;
  forward.draw.seed = 11, forward.draw.first = 2, forward.gate_totals = &gates;
  const at::Tensor given = model.forward(ids, forward).log_softmax(-1);
  at::Tensor wanted;
  {
    const at::NoGradGuard no_grad;
    wanted = dense.forward(ids).log_softmax(-1);
  }
  at::Tensor distance = at::zeros({});
  for (int64_t n = 0; n < ids.size(0); ++n) {
    if ((n + 2) % options.distill_every != 0) continue;
    distance = distance + (wanted[n].exp() * (wanted[n] - given[n])).sum();
  }
  distance = distance * (static_cast<double>(options.distill_every) / static_cast<double>(ids.numel()));
  const at::Tensor entropy = at::nll_loss(given.flatten(0, 1), targets);
  const at::Tensor penalty = at::stack(gates.penalty).mean();
  return (penalty + lambda * (entropy + options.distill * distance)) / (1 + lambda);
}

class LossOfAPass : public testing::TestWithParam<const char*> {};

TEST_P(LossOfAPass, HasTheGradientsOfWholeLogits) {
  const Transformer base = load_model(std::string("tests/data/") + GetParam());
  const at::Tensor tokens = (at::arange(7 * 17, at::kLong) * 31 % 97).view({7, 17});
  const LossOptions options{.distill = 2, .distill_every = 3};
  for (const bool lora : {false, true}) {
    const StartingPoint start = put_gates(base, GateKind::kIdle, 3.0, 0.5);
    WeightOptions weights;
    weights.learn_bias = true;
    if (lora) weights.lora = LoraOptions{2, 4, {"all"}};
    const auto gradients = [&](bool by_hand) {
      TrainedWeights trained(start.config, start.parameters, weights);
      GateDraw draw;
      draw.seed = 11, draw.first = 2;
      const at::Tensor loss =
          by_hand ? loss_by_hand(trained.pass_model(), base, tokens, options, 0.5)
                  : compute_pass_loss(trained.pass_model(), &base,
                                      {tokens, draw, at::scalar_tensor(0.5, at::kDouble)}, options)
                        .loss;
      loss.backward();
      return std::pair(loss.item<double>(), trained.gradients().clone());
    };
    const auto [wanted_loss, wanted] = gradients(true);
    const auto [seen_loss, seen] = gradients(false);
    EXPECT_NEAR(seen_loss, wanted_loss, 1e-6);
    const double size = wanted.norm().item<double>();
    EXPECT_GT(size, 1e-3);
    EXPECT_LE((seen - wanted).norm().item<double>(), 1e-5 * size) << (lora ? "with LoRA" : "of all weights");
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, LossOfAPass, testing::Values("gpt2", "gpt_neox", "llama", "olmo2"));

}  // namespace
}  // namespace openwork
