// Descriptions of features whose activity is known: each answers to one token of the tiny GPT-2's embedding.
#include "transcode/descriptions.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "io/test_files.h"
#include "model/load.h"

namespace openwork {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TokenBlocks some_blocks() {
  TokenBlocks blocks;
  blocks.context = 12, blocks.count = 4;
  for (int32_t n = 0; n < 49; ++n) blocks.tokens.push_back((n * 7) % 31);
  return blocks;
}

Transcoders random_transcoders(const Transformer& model) {
  at::manual_seed(1);
  Transcoders set;
  set.model = "tiny";
  const int64_t D = model.config().width;
  for (int64_t n = 0; n < model.config().layers; ++n) {
    set.layers.push_back(
        {at::randn({5, D}), at::zeros({5}), at::full({5}, 1.0), at::randn({5, 1, D}), at::zeros({D}), {}});
  }
  return set;
}

// By the plainest way there is: every activation, looked through one by one.
TEST(Descriptions, FindTheMostActivePlacesOfATextAndWhatIsAround) {
  const Transformer model = load_model("tests/data/gpt2");
  const Transcoders set = random_transcoders(model);
  const TokenBlocks blocks = some_blocks();
  const Descriptions described = describe_features(model, set, blocks, 2);
  ASSERT_EQ(described.layers.size(), set.layers.size());
  EXPECT_EQ(described.tokens, 48);
  const Tensor ids = at::tensor(blocks.tokens, at::kInt).to(at::kLong).narrow(0, 0, 48).view({4, 12});
  Tensor input;
  Taps taps;
  taps.read({Site::kNorm2Normalized, 1}, [&](const Tensor& x) { input = x; });
  model.forward(ids, {.taps = &taps});
  const Tensor features = encode(set.layers[1], input);  // [4, 12, 5]
  for (int64_t f = 0; f < 5; ++f) {
    const FeatureDescription& one = described.layers[1][static_cast<size_t>(f)];
    const Tensor own = features.select(2, f);
    EXPECT_NEAR(one.largest, own.max().item<double>(), 0.01 * one.largest + 1e-6);
    EXPECT_NEAR(one.density, (own != 0).sum().item<double>() / 48, 1e-3);
    if (one.contexts.empty()) continue;
    const int64_t place = own.argmax().item<int64_t>(),
                  begin = std::max<int64_t>(0, place % 12 - kTokensBefore);
    const FeatureContext& best = one.contexts.front();
    EXPECT_EQ(best.peak, place % 12 - begin);
    for (size_t n = 0; n < best.tokens.size(); ++n) {
      const int64_t at = place / 12 * 12 + begin + static_cast<int64_t>(n);
      EXPECT_EQ(best.tokens[n], blocks.tokens[static_cast<size_t>(at)]);
      EXPECT_NEAR(best.activations[n], own.flatten()[at].item<double>(), 0.01 * one.largest);
    }
  }
}

TEST(Descriptions, ComeBackFromTheirFile) {
  const TestFolder folder;
  EXPECT_FALSE(load_descriptions(folder.path()).has_value());
  Descriptions described{"tiny", "abc", 100, {{{2.5, 0.25, {{{1, 2, 3}, {0, 2.5, 0}, 1}}, {7}, {8, 9}}}, {}}};
  save_descriptions(folder.path(), described);
  const auto read = load_descriptions(folder.path());
  ASSERT_TRUE(read.has_value());
  ASSERT_EQ(read->layers.size(), 2u);
  EXPECT_TRUE(read->layers[1].empty());
  const FeatureDescription& one = read->layers[0][0];
  EXPECT_EQ(one.largest, 2.5);
  EXPECT_THAT(one.contexts.at(0).tokens, ElementsAre(1, 2, 3));
  EXPECT_THAT(one.contexts.at(0).activations, ElementsAre(0, 2.5, 0));
  EXPECT_EQ(one.contexts.at(0).peak, 1);
  EXPECT_THAT(one.bottom_logits, ElementsAre(8, 9));
}

TEST(Descriptions, ABadFileIsRefusedInOneLine) {
  const TestFolder folder;
  folder.write(kDescriptionsFile, R"({"version": 2})");
  try {
    load_descriptions(folder.path());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    EXPECT_THAT(error.what(), HasSubstr("no descriptions of features"));
  }
}

TEST(Descriptions, AContextWhosePeakLiesOutsideIsRefused) {
  for (const int64_t peak : {-1, 3}) {
    const TestFolder folder;
    save_descriptions(folder.path(),
                      {"tiny", "abc", 100, {{{2.5, 0.25, {{{1, 2, 3}, {0, 2.5, 0}, peak}}, {7}, {8}}}, {}}});
    EXPECT_THROW(load_descriptions(folder.path()), Error) << peak;
  }
  const TestFolder folder;
  save_descriptions(folder.path(),
                    {"tiny", "abc", 100, {{{2.5, 0.25, {{{1, 2, 3}, {2.5}, 0}}, {7}, {8}}}, {}}});
  EXPECT_THROW(load_descriptions(folder.path()), Error) << "one activation of three tokens";
}

TEST(Descriptions, IndexPairsLayerAndFeatureAsCircuitTracerDoes) {
  EXPECT_EQ(pair_index(0, 0), 0);
  EXPECT_EQ(pair_index(1, 0), 1);
  EXPECT_EQ(pair_index(0, 1), 2);
  EXPECT_EQ(pair_index(3, 512), 515 * 516 / 2 + 512);
}

TEST(Descriptions, DetailsHaveTheFormOfTheSchema) {
  const Tokenizer tokenizer = Tokenizer::from_file("models/openwork-8m");
  const std::vector<int32_t> ids = tokenizer.encode("Once upon a time");
  FeatureDescription one{2.5, 0.25, {{ids, std::vector<double>(ids.size(), 1.0), 1}}, {ids[0]}, {ids[1]}};
  const nlohmann::json details = feature_details(one, 1, 2, tokenizer);
  EXPECT_EQ(details.at("index"), pair_index(1, 2));
  const nlohmann::json& example = details.at("examples_quantiles").at(0).at("examples").at(0);
  EXPECT_TRUE(details.at("examples_quantiles").at(0).at("quantile_name").is_string());
  ASSERT_EQ(example.at("tokens").size(), ids.size());
  EXPECT_EQ(example.at("tokens").at(0), "On");
  EXPECT_EQ(example.at("tokens_acts_list").size(), ids.size());
  EXPECT_EQ(details.at("top_logits").at(0), "On");
}

}  // namespace
}  // namespace openwork
