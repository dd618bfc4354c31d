#include "transcode/transcoder.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "base/error.h"

namespace openwork {
namespace {

using testing::HasSubstr;

LayerTranscoder small_layer(int64_t targets) {
  LayerTranscoder layer;
  layer.encoder = at::tensor({1.0F, 0.0F, 0.0F, 2.0F, 1.0F, 1.0F}).view({3, 2});
  layer.encoder_bias = at::tensor({0.0F, -1.0F, 0.5F});
  layer.threshold = at::tensor({0.0F, 0.0F, 4.0F});
  layer.decoder = at::arange(3 * targets * 2, at::kFloat).view({3, targets, 2});
  layer.decoder_bias = at::tensor({10.0F, 20.0F});
  return layer;
}

TEST(Transcoder, AnActiveFeatureKeepsItsPreActivation) {
  const Tensor features = encode(small_layer(1), at::tensor({1.0F, 2.0F, -1.0F, 5.0F}).view({2, 2}));
  // pre-activations: (1, 3, 3.5) and (-1, 9, 4.5); the third must pass 4
  EXPECT_TRUE(at::equal(features, at::tensor({1.0F, 3.0F, 0.0F, 0.0F, 9.0F, 4.5F}).view({2, 3}))) << features;
}

TEST(Transcoder, OneAtItsThresholdIsNotActive) {
  LayerTranscoder layer = small_layer(1);
  layer.threshold = at::tensor({1.0F, 3.0F, 3.5F});
  EXPECT_EQ(encode(layer, at::tensor({1.0F, 2.0F})).count_nonzero().item<int64_t>(), 0);
}

TEST(Transcoder, PerLayerDecodesFromItsOwnFeaturesAndItsSkip) {
  Transcoders set;
  set.layers = {small_layer(1), small_layer(1)};
  set.layers[1].skip = at::tensor({0.0F, 1.0F, 0.0F, 0.0F}).view({2, 2});
  const Tensor features = at::tensor({1.0F, 0.0F, 2.0F}), input = at::tensor({7.0F, 3.0F});
  const std::vector<Tensor> out = decode(set, {features, features * 10}, {input, input});
  // rows of W_dec: (0, 1), (2, 3), (4, 5); skip adds input[1] to the first number
  EXPECT_TRUE(at::equal(out[0], at::tensor({10.0F + 8, 20.0F + 11})));
  EXPECT_TRUE(at::equal(out[1], at::tensor({10.0F + 80 + 3, 20.0F + 110})));
}

TEST(Transcoder, CrossLayerWritesToEveryLaterLayer) {
  Transcoders set;
  set.kind = TranscoderKind::kCrossLayer;
  set.layers = {small_layer(2), small_layer(1)};
  const Tensor first = at::tensor({1.0F, 0.0F, 0.0F}), second = at::tensor({0.0F, 1.0F, 0.0F});
  const std::vector<Tensor> out = decode(set, {first, second}, {});
  EXPECT_TRUE(at::equal(out[0], at::tensor({10.0F, 21.0F})));                  // (0, 1) of the first row
  EXPECT_TRUE(at::equal(out[1], at::tensor({10.0F + 2 + 2, 20.0F + 3 + 3})));  // (2, 3) of both
}

TEST(Transcoder, ReadsWhatTheArchitectureHas) {
  ModelConfig config;
  EXPECT_EQ(transcoder_input(config, TranscoderInput::kNormed, 3),
            (ActivationName{Site::kNorm2Normalized, 3}));
  EXPECT_EQ(transcoder_input(config, TranscoderInput::kResidual, 3), (ActivationName{Site::kResidMid, 3}));
  config.parallel_residual = true;
  EXPECT_EQ(transcoder_input(config, TranscoderInput::kResidual, 3), (ActivationName{Site::kResidPre, 3}));
  EXPECT_EQ(transcoder_input(config, TranscoderInput::kNormed, 3),
            (ActivationName{Site::kNorm2Normalized, 3}));
  config.parallel_residual = false;
  config.norm_placement = NormPlacement::kAfter;
  EXPECT_EQ(transcoder_input(config, TranscoderInput::kNormed, 3), (ActivationName{Site::kResidMid, 3}));
}

std::string refusal(const Transcoders& set, const ModelConfig& config, const std::string& hash) {
  try {
    check_transcoders_fit(set, config, hash, "somewhere");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Transcoder, OfAnotherModelIsRefusedInOneLine) {
  Transcoders set;
  set.model = "small";
  set.layers = {small_layer(1), small_layer(1)};
  ModelConfig config;
  config.layers = 2, config.width = 2;
  EXPECT_EQ(refusal(set, config, "abc"), "");
  set.model_sha256 = "abcdef";
  EXPECT_EQ(refusal(set, config, "abcdef"), "");
  EXPECT_EQ(refusal(set, config, ""), "");
  EXPECT_THAT(refusal(set, config, "123456"), HasSubstr("of another model"));
  config.width = 4;
  EXPECT_THAT(refusal(set, config, "abcdef"),
              HasSubstr("width 2, but the model's is 4; somewhere; they are of small"));
  config.layers = 3;
  EXPECT_THAT(refusal(set, config, "abcdef"), HasSubstr("of 2 layers, but the model has 3"));
}

}  // namespace
}  // namespace openwork
