// Training transcoders of the tiny GPT-2 on made-up tokens: gradients, what is learned, resuming, ranks.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "io/json.h"
#include "train/checkpoint.h"
#include "train/rank_processes.h"
#include "transcode/tiny_training.h"
#include "transcode/transcoder_files.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;
using testing::Each;

class TranscoderTraining : public TinyTranscoders {};

// The gradients written out are those of autograd, dead features and token weights included.
TEST_F(TranscoderTraining, GradientsAreThoseOfAutograd) {
  at::manual_seed(2);
  for (const TranscoderKind kind : {TranscoderKind::kPerLayer, TranscoderKind::kCrossLayer}) {
    const TranscoderShape shape{kind, 3, 10, 4, kind == TranscoderKind::kPerLayer};
    const Tensor flat = at::randn({shape.numbers()}, at::kDouble).set_requires_grad(true);
    const ScaledActivations x{at::randn({3, 7, 4}, at::kDouble),
                              at::randn({3, 7, 4}, at::kDouble),
                              at::rand({3, 7}, at::kDouble),
                              {}};
    const ActivationScales scales{{}, {}, {}, {}, at::tensor({1.5, 2.0, 0.5}, at::kDouble)};
    const Tensor threshold = at::tensor({0.5, 0.1, 1.0}, at::kDouble);
    const Tensor no_dead = at::zeros({3, 10}, at::kBool);
    const PassSums sums = make_pass_sums(shape, at::kCPU);
    add_pass(shape, split_parts(shape, flat.detach()), x, scales, threshold, no_dead,
             {FeatureSelection::kBatchTopK, 3, 7, 1}, sums);

    const TranscoderParts parts = split_parts(shape, flat);
    const Tensor before =
        at::baddbmm(parts.encoder_bias.unsqueeze(1), x.inputs, parts.encoder.transpose(1, 2));
    const Tensor features = before * (before.detach() > threshold.view({-1, 1, 1}));
    Tensor error = decode_all(shape, parts.decoder, features) + parts.decoder_bias.unsqueeze(1) - x.outputs;
    if (shape.skip) error = error + at::bmm(x.inputs, parts.skip.transpose(1, 2));
    const Tensor loss = (error.square().sum(-1) * x.weights / scales.variance.unsqueeze(1)).mean(1).sum();
    (loss * 4).backward();
    EXPECT_NEAR(sums.error.sum().item<double>(), loss.item<double>(), 1e-4);
    EXPECT_LT((sums.flat.narrow(0, 0, shape.numbers()) - flat.grad()).abs().max().item<double>(), 1e-4);
    EXPECT_EQ(sums.fired.sum().item<double>(), (features != 0).sum().item<double>());
  }
}

TEST_F(TranscoderTraining, ExplainsTheMlpsAndStandsInForThem) {
  for (const TranscoderKind kind : {TranscoderKind::kPerLayer, TranscoderKind::kCrossLayer}) {
    TranscodeOptions options = tiny(kind == TranscoderKind::kPerLayer ? "plt" : "clt", 300);
    options.kind = kind;
    options.dead_after = 5000;
    const TranscodeResult result = train(options);
    const TranscoderQuality quality = measure(result.transcoders);
    EXPECT_GT(quality.mean.explained_variance, 0.8);
    EXPECT_NEAR(quality.mean.active_features, 8, 1.5);
    const ReplacementLosses& losses = quality.losses;
    EXPECT_LT(std::abs(losses.replaced - losses.model), 0.5 * std::abs(losses.zero_output - losses.model));
    EXPECT_EQ(result.training.steps, 300);
  }
}

TEST_F(TranscoderTraining, TopKKeepsNoMoreThanKOnAverageEither) {
  TranscodeOptions options = tiny("topk", 200);
  options.selection = FeatureSelection::kTopK;
  const TranscoderQuality quality = measure(train(options).transcoders);
  EXPECT_NEAR(quality.mean.active_features, 8, 1.5);
  EXPECT_GT(quality.mean.explained_variance, 0.7);
}

TEST_F(TranscoderTraining, AResumedRunEndsAtTheSameBits) {
  const TranscodeOptions whole = tiny("whole");
  const Transcoders straight = train(whole).transcoders;
  fs::remove_all(whole.folder / "checkpoints" / "step-00000012");
  fs::remove(whole.folder / "checkpoints" / "latest");
  TranscodeOptions again = whole;
  again.resume = true;
  const TranscodeResult resumed = train(again);
  expect_same(resumed.transcoders, straight, 0);
  EXPECT_EQ(resumed.training.steps, 12);
  again.k = 7;
  EXPECT_THROW(train(again), Error);
}

TEST_F(TranscoderTraining, TwoRanksGiveTheTranscodersOfOneProcess) {
  const Transcoders alone = train(tiny("alone")).transcoders;
  const std::vector<int> codes = run_ranks(2, [&](Ranks& ranks) {
    TranscodeOptions options = tiny("ranks");
    options.ranks = std::shared_ptr<Ranks>(&ranks, [](Ranks*) {});
    const TranscodeResult result = train(options);
    if (ranks.is_first()) save_transcoders(folder / "saved", result.transcoders, kPlainBits);
    return 0;
  });
  ASSERT_THAT(codes, Each(0));
  expect_same(load_transcoders(folder / "saved"), alone, 1e-3);
}

// Of features that were not active for the last 1000 tokens, fewer are left where they are revived.
TEST_F(TranscoderTraining, DeadFeaturesAreRevived) {
  const auto idle_share = [&](const std::string& name, int64_t dead_after) {
    TranscodeOptions options = tiny(name, 400);
    options.features = 400, options.k = 4, options.dead_after = dead_after;
    const int64_t layers = model.config().layers;
    train(options);
    const Tensor idle = at::zeros({layers, 400});
    CheckpointFolder(options.folder / "checkpoints").read_tensors(400, {{"idle", idle}});
    return (idle >= 1000).to(at::kFloat).mean().item<double>();
  };
  const double left = idle_share("left", int64_t{1} << 40), revived = idle_share("revived", 1000);
  EXPECT_GT(left, 0.2);
  EXPECT_LT(revived, 0.7 * left);
}

TEST_F(TranscoderTraining, ALineOfMetricsTellsHowEveryLayerIsDoing) {
  train(tiny("metrics"));
  std::ifstream file(folder / "metrics/metrics.jsonl");
  std::string line;
  int lines = 0;
  for (; std::getline(file, line); ++lines) {
    const nlohmann::json json = nlohmann::json::parse(line);
    EXPECT_EQ(json.at("explained_variance").size(), static_cast<size_t>(model.config().layers));
    EXPECT_EQ(json.at("active_features").size(), static_cast<size_t>(model.config().layers));
    EXPECT_GT(json.at("tokens_per_second").get<double>(), 0);
  }
  EXPECT_EQ(lines, 4);
}

TEST_F(TranscoderTraining, RefusesMoreActiveFeaturesThanThereAre) {
  TranscodeOptions options = tiny("bad");
  options.k = 49;
  EXPECT_THROW(train(options), Error);
}

}  // namespace
}  // namespace openwork
