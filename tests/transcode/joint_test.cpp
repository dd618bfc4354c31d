// The last stage of training: all transcoders of the tiny GPT-2 together, in the model with its MLPs replaced.
#include "transcode/joint_pass.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <fstream>

#include "io/json.h"
#include "train/rank_processes.h"
#include "transcode/tiny_training.h"
#include "transcode/transcoder_files.h"

namespace openwork {
namespace {

class JointTraining : public TinyTranscoders {
 protected:
  // Half of it in place.
  TranscodeOptions joint(const std::string& name, int64_t steps = 12) const {
    TranscodeOptions options = tiny(name, steps);
    options.joint_share = 0.5;
    return options;
  }

  Transcoders train_set(const TranscodeOptions& options) { return train(options).transcoders; }

  std::vector<nlohmann::json> metrics(const std::string& name) const {
    std::ifstream file(folder / name / "metrics.jsonl");
    std::vector<nlohmann::json> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }

  std::vector<double> distances(const std::string& name) const {
    std::vector<double> found;
    for (const nlohmann::json& line : metrics(name)) {
      if (line.contains("distance")) found.push_back(line.at("distance"));
    }
    return found;
  }
};

// Along drawn directions, the loss a little further and a little back. Thresholds of 0 make it continuous.
TEST_F(JointTraining, GradientsAreThoseOfDifferences) {
  const Transformer exact = load_model("tests/data/gpt2", {.dtype = at::kDouble});
  const Tensor ids = batches.read(0, 3).narrow(1, 0, 16);
  constexpr double kWeight = 0.7, kStep = 1e-3;
  for (const bool cross : {false, true}) {
    const TranscoderKind kind = cross ? TranscoderKind::kCrossLayer : TranscoderKind::kPerLayer;
    const TranscoderShape shape{kind, exact.config().layers, 20, exact.config().width, !cross};
    const MlpActivations activations = read_mlp_activations(exact, TranscoderInput::kNormed, ids);
    const ActivationScales scales = measure_scales(activations);
    const ScaledActivations own = scale_activations(activations, scales);
    at::manual_seed(5);
    const Tensor flat = at::randn({shape.numbers()}, at::kDouble) * 0.2;
    const Tensor threshold = at::zeros({shape.layers});
    const auto pass = [&](const Tensor& numbers) {
      PassSums sums = make_pass_sums(shape, at::kCPU);
      add_joint_pass(exact, TranscoderInput::kNormed, ids, own, shape, split_parts(shape, numbers), scales,
                     threshold, {kWeight, ids.numel()}, sums);
      return sums;
    };
    const auto loss = [&](const Tensor& numbers) {
      const PassSums sums = pass(numbers);
      return sums.distance.item<double>() + kWeight * sums.error.mean().item<double>();
    };
    const double unit = static_cast<double>(shape.layers * shape.width);
    const Tensor gradient = pass(flat).flat.narrow(0, 0, shape.numbers()).to(at::kDouble) / unit;
    for (int draw = 0; draw < 4; ++draw) {
      const Tensor way = at::randn_like(flat) * gradient.abs().sqrt();  // where the slope is
      const double difference = (loss(flat + kStep * way) - loss(flat - kStep * way)) / (2 * kStep);
      const double slope = (gradient * way).sum().item<double>();
      EXPECT_NEAR(difference, slope, 0.01 * std::abs(slope) + 2e-3) << draw << (cross ? " clt" : " plt");
    }
  }
}

TEST_F(JointTraining, LowersTheReplacedModelsLoss) {
  for (const TranscoderKind kind : {TranscoderKind::kPerLayer, TranscoderKind::kCrossLayer}) {
    const bool cross = kind == TranscoderKind::kCrossLayer;
    TranscodeOptions apart = joint(cross ? "clt" : "plt", 100);
    apart.kind = kind, apart.joint_share = 0;
    const Transcoders start = train_set(apart);
    TranscodeOptions together = joint(cross ? "clt-together" : "plt-together", 100);
    together.kind = kind, together.joint_share = 1, together.start = &start;
    const Transcoders end = train_set(together);
    const std::vector<double> distance = distances(together.folder.filename());
    ASSERT_EQ(distance.size(), 34u);
    EXPECT_LT(distance.back(), 0.85 * distance.front());
    // As measured from outside, on what is saved: every layer's worth was kept too.
    EXPECT_GT(measure(end).mean.explained_variance, measure(start).mean.explained_variance - 0.1);
  }
}

TEST_F(JointTraining, AResumedRunEndsAtTheSameBitsFromEitherStage) {
  TranscodeOptions whole = joint("whole");
  whole.skip = true, whole.own_weight = 0.5;
  const Transcoders straight = train_set(whole);
  const std::filesystem::path checkpoints = whole.folder / "checkpoints";
  TranscodeOptions again = whole;
  again.resume = true;
  for (const char* newest : {"step-00000012", "step-00000010"}) {  // then 10 and 5 are left
    std::filesystem::remove_all(checkpoints / newest);
    std::filesystem::remove_all(checkpoints / "step-00000012");
    std::filesystem::remove(checkpoints / "latest");
    expect_same(train_set(again), straight, 0);
  }
  again.joint_share = 0.4;
  EXPECT_THROW(train_set(again), Error);
  again.joint_share = whole.joint_share, again.own_weight = 0;
  EXPECT_THROW(train_set(again), Error);
}

TEST_F(JointTraining, TheModelsOwnInputsKeepTheirWeight) {
  TranscodeOptions apart = tiny("apart", 100);
  const Transcoders start = train_set(apart);
  const auto go_on = [&](const std::string& name, double own_weight) {
    TranscodeOptions options = joint(name, 100);
    options.joint_share = 1, options.start = &start, options.own_weight = own_weight;
    return measure(train_set(options)).mean.explained_variance;
  };
  EXPECT_GT(go_on("both", 4), go_on("predictions", 0) + 0.01);
  const nlohmann::json line = metrics("both").back();
  EXPECT_EQ(line.at("own_explained_variance").size(), static_cast<size_t>(model.config().layers));
  EXPECT_FALSE(metrics("predictions").back().contains("own_explained_variance"));
  TranscodeOptions alone = apart;
  alone.own_weight = 1;
  EXPECT_THROW(train_set(alone), Error) << "no step has both losses";
}

TEST_F(JointTraining, TwoRanksGiveTheTranscodersOfOneProcess) {
  const auto both = [&](const std::string& name) {
    TranscodeOptions options = joint(name);
    options.own_weight = 0.5;
    return options;
  };
  const Transcoders alone = train_set(both("alone"));
  const std::vector<int> codes = run_ranks(2, [&](Ranks& ranks) {
    TranscodeOptions options = both("ranks");
    options.ranks = std::shared_ptr<Ranks>(&ranks, [](Ranks*) {});
    const Transcoders trained = train_set(options);
    if (ranks.is_first()) save_transcoders(folder / "saved", trained, kPlainBits);
    return 0;
  });
  ASSERT_THAT(codes, testing::Each(0));
  expect_same(load_transcoders(folder / "saved"), alone, 1e-3);
}

TEST_F(JointTraining, ThresholdsLeaveKFeaturesInTheReplacedModel) {
  const TranscoderQuality quality = measure(train_set(joint("settled", 120)));
  for (const LayerQuality& layer : quality.layers) EXPECT_NEAR(layer.active_replaced, 8, 0.8);
}

TEST_F(JointTraining, ASharedKIsTheMeanOverLayers) {
  TranscodeOptions options = joint("shared", 120);
  options.share_k = true;
  const TranscoderQuality quality = measure(train_set(options));
  EXPECT_NEAR(quality.mean.active_replaced, 8, 0.8);
}

TEST_F(JointTraining, ASkipIsTrainedSavedAndExplainsMore) {
  TranscodeOptions plain = joint("plain", 60), skipping = joint("skip", 60);
  plain.joint_share = skipping.joint_share = 0.3;
  skipping.skip = true;
  const Transcoders with = train_set(skipping);
  ASSERT_TRUE(with.layers[0].skip.defined());
  EXPECT_GT(measure(with).mean.explained_variance, measure(train_set(plain)).mean.explained_variance);
  save_transcoders(folder / "eight", with, kByteBits);
  const Tensor saved = load_transcoders(folder / "eight").layers[1].skip, skip = with.layers[1].skip;
  EXPECT_LT((saved - skip).abs().max().item<double>(), 0.01 * skip.abs().max().item<double>());
  skipping.kind = TranscoderKind::kCrossLayer;
  EXPECT_THROW(train_set(skipping), Error);
}

TEST_F(JointTraining, AStartIsWhereTheSavedSetEnded) {
  TranscodeOptions first = joint("first", 20);
  first.skip = true;
  const Transcoders start = train_set(first);
  TranscodeOptions next = joint("next", 1);
  next.skip = true, next.start = &start, next.learning_rate = 1e-12, next.joint_share = 0;
  const Transcoders same = train_set(next);
  for (size_t n = 0; n < start.layers.size(); ++n) {
    EXPECT_TRUE(at::allclose(same.layers[n].encoder, start.layers[n].encoder, 1e-4, 1e-6));
    EXPECT_TRUE(at::allclose(same.layers[n].decoder, start.layers[n].decoder, 1e-4, 1e-6));
    EXPECT_TRUE(at::allclose(same.layers[n].skip, start.layers[n].skip, 1e-4, 1e-6));
    EXPECT_TRUE(at::allclose(same.layers[n].threshold, start.layers[n].threshold, 0.15, 0));
  }
  next.features = 47;
  EXPECT_THROW(train_set(next), Error);
}

TEST_F(JointTraining, TheLastPointOfTheCurveIsTheWholeModelReplaced) {
  for (const TranscoderKind kind : {TranscoderKind::kPerLayer, TranscoderKind::kCrossLayer}) {
    TranscodeOptions options = joint(kind == TranscoderKind::kPerLayer ? "plt" : "clt", 20);
    options.kind = kind;
    const TranscoderQuality quality = measure(train_set(options));
    ASSERT_EQ(quality.curves.up_to.size(), static_cast<size_t>(model.config().layers));
    EXPECT_NEAR(quality.curves.up_to.back(), quality.increase(), 1e-6);
    EXPECT_NEAR(quality.curves.up_to.front(), quality.curves.alone.front(), 1e-9);
    EXPECT_EQ(quality.curves.blocks, 60);
  }
}

}  // namespace
}  // namespace openwork
