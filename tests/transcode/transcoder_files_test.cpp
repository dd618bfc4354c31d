// Transcoder folders: what is written is read, circuit-tracer's own layout opens, bad files are one line.
#include "transcode/transcoder_files.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <fstream>

#include "io/test_files.h"
#include "transcode/descriptions.h"
#include "transcode/rounded_rows.h"
#include "transcode/transcoder_config.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

Transcoders random_set(TranscoderKind kind, int64_t layers = 3) {
  at::manual_seed(5);
  Transcoders set;
  set.kind = kind, set.input = TranscoderInput::kResidual;
  set.model = "a \"quoted\": model", set.model_sha256 = std::string(64, 'a'), set.scan = "some/scan";
  for (int64_t n = 0; n < layers; ++n) {
    const int64_t targets = kind == TranscoderKind::kPerLayer ? 1 : layers - n;
    set.layers.push_back(
        {at::randn({6, 4}), at::randn({6}), at::rand({6}), at::randn({6, targets, 4}), at::randn({4}), {}});
  }
  return set;
}

double largest_difference(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() ? (a - b).abs().max().item<double>() : 1e9;
}

class TranscoderFiles : public testing::TestWithParam<TranscoderKind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, TranscoderFiles,
                         testing::Values(TranscoderKind::kPerLayer, TranscoderKind::kCrossLayer),
                         [](const auto& info) { return std::string(kind_name(info.param)); });

TEST_P(TranscoderFiles, PlainOnesComeBackBitForBit) {
  const TestFolder folder;
  Transcoders set = random_set(GetParam());
  if (GetParam() == TranscoderKind::kPerLayer) set.layers[1].skip = at::randn({4, 4});
  save_transcoders(folder / "set", set, kPlainBits);
  const Transcoders read = load_transcoders(folder / "set");
  EXPECT_EQ(read.kind, set.kind);
  EXPECT_EQ(read.input, set.input);
  EXPECT_EQ(read.model_sha256, set.model_sha256);
  EXPECT_EQ(read.scan, set.scan);
  ASSERT_EQ(read.layers.size(), set.layers.size());
  for (size_t n = 0; n < read.layers.size(); ++n) {
    EXPECT_TRUE(at::equal(read.layers[n].encoder, set.layers[n].encoder));
    EXPECT_TRUE(at::equal(read.layers[n].encoder_bias, set.layers[n].encoder_bias));
    EXPECT_TRUE(at::equal(read.layers[n].threshold, set.layers[n].threshold));
    EXPECT_TRUE(at::equal(read.layers[n].decoder, set.layers[n].decoder));
    EXPECT_TRUE(at::equal(read.layers[n].decoder_bias, set.layers[n].decoder_bias));
    EXPECT_EQ(read.layers[n].skip.defined(), set.layers[n].skip.defined());
  }
}

// What describes others would be taken for theirs.
TEST_P(TranscoderFiles, NewOnesHaveNoDescriptionsYet) {
  const TestFolder folder;
  save_transcoders(folder / "set", random_set(GetParam()), kPlainBits);
  std::ofstream(folder / "set" / kDescriptionsFile) << "of these";
  save_transcoders(folder / "set", random_set(GetParam()), kPlainBits);
  EXPECT_FALSE(std::filesystem::exists(folder / "set" / kDescriptionsFile));
}

TEST_P(TranscoderFiles, EightBitsAreWithinHalfAStepOfEachRow) {
  const TestFolder folder;
  const Transcoders set = random_set(GetParam());
  save_transcoders(folder / "set", set, kByteBits);
  const Transcoders read = load_transcoders(folder / "set");
  for (size_t n = 0; n < read.layers.size(); ++n) {
    const Tensor step = set.layers[n].decoder.abs().amax(-1, true) / 127;
    EXPECT_TRUE(((read.layers[n].decoder - set.layers[n].decoder).abs() <= 0.501 * step).all().item<bool>());
    EXPECT_LT(largest_difference(read.layers[n].encoder, set.layers[n].encoder), 0.02);
    EXPECT_GT(largest_difference(read.layers[n].encoder, set.layers[n].encoder), 0);
    EXPECT_TRUE(at::equal(read.layers[n].threshold, set.layers[n].threshold));
  }
}

// A step of B bits is 2^(8 - B) steps of 8 bits, or less where a row's largest numbers are cut.
TEST_P(TranscoderFiles, FewerBitsAreLessExactAndTakeLessRoom) {
  const TestFolder folder;
  Transcoders set = random_set(GetParam());
  if (GetParam() == TranscoderKind::kPerLayer) set.layers[1].skip = at::randn({4, 4});
  double last = 0;
  for (int bits = kByteBits; bits >= kFewestBits; --bits) {
    const fs::path place = folder / fmt::format("{}", bits);
    save_transcoders(place, set, bits);
    const Transcoders read = load_transcoders(place);
    double error = 0, size = 0;
    for (size_t n = 0; n < read.layers.size(); ++n) {
      ASSERT_EQ(read.layers[n].decoder.sizes(), set.layers[n].decoder.sizes());
      ASSERT_EQ(read.layers[n].skip.defined(), set.layers[n].skip.defined());
      error += (read.layers[n].encoder - set.layers[n].encoder).square().sum().item<double>();
      size += set.layers[n].encoder.square().sum().item<double>();
      EXPECT_TRUE(at::equal(read.layers[n].threshold, set.layers[n].threshold));
    }
    const double step = 1.0 / static_cast<double>((1 << (bits - 1)) - 1);  // of a row's largest number
    EXPECT_LT(error / size, step * step) << bits;
    EXPECT_GT(error, last) << bits;
    last = error;
  }
}

TEST(RoundedRows, CodesArePackedAndComeBack) {
  at::manual_seed(3);
  for (int bits = kFewestBits; bits <= kByteBits; ++bits) {
    const int64_t most = (1 << (bits - 1)) - 1;
    const Tensor codes = at::randint(-most, most + 1, {3, 2, 13}, at::kChar);
    const Tensor packed = pack_rows(codes, bits);
    EXPECT_EQ(packed.size(-1), (13 * bits + 7) / 8);
    EXPECT_TRUE(at::equal(unpack_rows(packed, 13, bits), codes)) << bits;
  }
}

// One number far above the others: with few bits it is cut, for steps that the others can use.
TEST(RoundedRows, FewBitsCutWhatStandsOut) {
  at::manual_seed(4);
  Tensor row = at::randn({1, 64});
  row[0][5] = 12;
  const Tensor widest = row.abs().amax(-1) / 7;
  const Tensor plain = (row / widest.unsqueeze(-1)).round() * widest.unsqueeze(-1);
  const Tensor best = expand_rows(round_rows(row, 4));
  EXPECT_LT((best - row).square().sum().item<double>(), (plain - row).square().sum().item<double>());
}

TEST(RoundedRows, ARowOfZerosIsOne) {
  for (const int bits : {4, 8})
    EXPECT_TRUE(at::equal(expand_rows(round_rows(at::zeros({2, 5}), bits)), at::zeros({2, 5})));
}

TEST_P(TranscoderFiles, ASmallerSetOfTheOtherKindLeavesNothingOfTheFormer) {
  const TestFolder folder;
  const bool per_layer = GetParam() == TranscoderKind::kPerLayer;
  const TranscoderKind other = per_layer ? TranscoderKind::kCrossLayer : TranscoderKind::kPerLayer;
  save_transcoders(folder / "set", random_set(GetParam(), 3), kPlainBits);
  save_transcoders(folder / "set", random_set(other, 2), kPlainBits);
  EXPECT_EQ(load_transcoders(folder / "set").layers.size(), 2u);
  const auto files = std::distance(fs::directory_iterator(folder / "set"), {});
  EXPECT_EQ(files, other == TranscoderKind::kPerLayer ? 3 : 5);
}

TEST(CircuitTracerLayout, PerLayerInItsOwnDtypeOpens) {
  const Transcoders set = load_transcoders("tests/data/transcoders/plt");
  EXPECT_EQ(set.kind, TranscoderKind::kPerLayer);
  EXPECT_EQ(set.input, TranscoderInput::kNormed);
  EXPECT_EQ(set.model, "google/gemma-2-2b");
  EXPECT_EQ(set.model_sha256, "");
  EXPECT_EQ(set.scan, "first-scan");
  ASSERT_EQ(set.layers.size(), 2u);
  EXPECT_TRUE(at::equal(set.layers[1].threshold, at::zeros({3})));  // plain ReLU
  // x = (2, 1): pre-activations (2, 2, -0.5); both pass, and write (1, 2) and (3, 4)
  const Tensor x = at::tensor({2.0F, 1.0F}), features = encode(set.layers[0], x);
  EXPECT_TRUE(at::equal(features, at::tensor({2.0F, 2.0F, 0.0F})));
  const std::vector<Tensor> out = decode(set, {features, features}, {x, x});
  EXPECT_TRUE(at::equal(out[0], at::tensor({18.0F, 32.0F})));
  EXPECT_TRUE(at::equal(out[1], at::tensor({11.0F + 8 + 1, 20.0F + 12 + 4})));  // x W_skip^T = (1, 4)
}

TEST(CircuitTracerLayout, CrossLayerOpens) {
  const Transcoders set = load_transcoders("tests/data/transcoders/clt");
  EXPECT_EQ(set.kind, TranscoderKind::kCrossLayer);
  EXPECT_EQ(set.scan, "gemma");
  ASSERT_EQ(set.layers.size(), 2u);
  const Tensor first = at::tensor({1.0F, 0.0F, 0.0F}), none = at::zeros({3});
  const std::vector<Tensor> out = decode(set, {first, none}, {});
  EXPECT_TRUE(at::equal(out[0], at::tensor({11.0F, 22.0F})));
  EXPECT_TRUE(at::equal(out[1], at::tensor({14.0F, 24.0F})));
}

std::string refusal(const fs::path& folder) {
  try {
    load_transcoders(folder);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    return error.what();
  }
  return "";
}

TEST(TranscoderFiles, BadOnesAreRefusedInOneLine) {
  const TestFolder folder;
  EXPECT_THAT(refusal(folder.path()), HasSubstr("no config.yaml"));
  const auto fresh = [&] {
    fs::remove_all(folder / "set");
    fs::copy("tests/data/transcoders/plt", folder / "set");
    return folder / "set";
  };
  const auto config = [&](const std::string& text) { std::ofstream(fresh() / "config.yaml") << text; };
  fs::resize_file(fresh() / "layer_1.safetensors", 200);
  EXPECT_THAT(refusal(folder / "set"), HasSubstr("layer_1.safetensors"));
  fs::copy_file("tests/data/transcoders/clt/W_enc_0.safetensors", fresh() / "layer_1.safetensors",
                fs::copy_options::overwrite_existing);
  EXPECT_THAT(refusal(folder / "set"), HasSubstr("W_enc"));
  fs::remove(fresh() / "layer_0.safetensors");
  EXPECT_THAT(refusal(folder / "set"), HasSubstr("no layer_0.safetensors"));
  config("model_kind: sparse_autoencoder\n");
  EXPECT_THAT(refusal(folder / "set"), HasSubstr("model_kind 'sparse_autoencoder'"));
  config("model_kind: transcoder_set\nfeature_input_hook: hook_q\n");
  EXPECT_THAT(refusal(folder / "set"), HasSubstr("feature_input_hook 'hook_q'"));
  config("model_kind: {transcoder_set}\n");
  EXPECT_THAT(refusal(folder / "set"), HasSubstr("line 1"));
  config("no colon here\n");
  EXPECT_THAT(refusal(folder / "set"), HasSubstr("is not `key: value`"));
}

TEST(TranscoderFiles, AWrongShapeIsNamed) {
  const TestFolder folder;
  Transcoders set = random_set(TranscoderKind::kPerLayer);
  set.layers[2].encoder_bias = at::zeros({5});
  save_transcoders(folder / "set", set, kPlainBits);
  EXPECT_THAT(refusal(folder / "set"), HasSubstr("tensor 'b_enc' has shape [5] where [6] is wanted"));
}

TEST(TranscoderFiles, AreNotPutIntoAModelsFolder) {
  const TestFolder folder;
  folder.write("config.json", "{}");
  EXPECT_THROW(save_transcoders(folder.path(), random_set(TranscoderKind::kPerLayer), kPlainBits), Error);
}

}  // namespace
}  // namespace openwork
