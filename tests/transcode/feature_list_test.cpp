// Searching features whose descriptions are made up, with a real tokenizer.
#include "transcode/feature_list.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "base/error.h"

namespace openwork {
namespace {

using testing::ElementsAre;

class FeatureList : public testing::Test {
 protected:
  FeatureList() : tokenizer(Tokenizer::from_file("models/openwork-8m")) {
    descriptions.layers.resize(2);
    descriptions.layers[0] = {about("a very large house", 3), about("The end of the", 1),
                              about("the end of it", 2)};
    descriptions.layers[1] = {about("The Large Magellanic cloud", 1), about("nothing here", 0)};
    descriptions.layers[0][1].top_logits = {5, id_of(" large")};
    descriptions.layers[0][2].density = 0.5;
    groups = {{0, 1, 2}, {0, 1}};
  }

  int32_t id_of(const std::string& text) const { return tokenizer.encode(text).front(); }

  // One context that is active at the word of this number and half as much at the next.
  FeatureDescription about(const std::string& text, size_t word) const {
    FeatureContext context{tokenizer.encode(text), {}, 0};
    context.activations.assign(context.tokens.size(), 0);
    for (size_t n = 0, words = 0; n < context.tokens.size(); ++n) {
      if (n > 0 && tokenizer.piece(context.tokens[n]).starts_with(' ')) ++words;
      if (words == word && context.activations[static_cast<size_t>(context.peak)] == 0) {
        context.peak = static_cast<int64_t>(n), context.activations[n] = 4;
        if (n + 1 < context.tokens.size()) context.activations[n + 1] = 2;
      }
    }
    return {.largest = 4, .density = 0.1, .contexts = {context}, .top_logits = {5}, .bottom_logits = {6}};
  }

  std::vector<std::string> names(const FeatureQuery& query) const {
    std::vector<std::string> list;
    for (const FoundFeature& one : find_features(descriptions, groups, tokenizer, query))
      list.push_back("L" + std::to_string(one.layer) + "F" + std::to_string(one.feature));
    return list;
  }

  Tokenizer tokenizer;
  Descriptions descriptions;
  FeatureGroups groups;
};

TEST_F(FeatureList, FindsWhatIsReadInAnyCaseAndWhatIsWritten) {
  // L1F0 peaks on Large; L0F1 writes " large" second; L0F0 is silent there.
  EXPECT_THAT(names({.search = "large"}), ElementsAre("L1F0", "L0F1"));
  const std::vector<FoundFeature> found = find_features(descriptions, groups, tokenizer, {.search = "LARGE"});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].reads, 1);
  EXPECT_EQ(found[1].writes, 0.5);
}

TEST_F(FeatureList, ATextOfSeveralTokensIsFoundWhereAnyOfThemIsActive) {
  const std::vector<FoundFeature> found =
      find_features(descriptions, groups, tokenizer, {.search = "ge Mag"});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].layer, 1);
  EXPECT_EQ(found[0].reads, 0.5)
      << "the second token of Large is half as active as the first, where the peak is";
}

TEST_F(FeatureList, WithoutASearchTheMostOftenActiveComeFirst) {
  EXPECT_THAT(names({.layer = 0}), ElementsAre("L0F2", "L0F0", "L0F1"));
  EXPECT_EQ(names({}).size(), 5u);
  EXPECT_THROW(names({.layer = 2}), Error);
}

TEST_F(FeatureList, NearDuplicatesAreListedOnceUnderTheFirstFound) {
  groups[0] = {0, 1, 1};
  const std::vector<FoundFeature> found = find_features(descriptions, groups, tokenizer, {.layer = 0});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].feature, 2);
  EXPECT_THAT(found[0].alike, ElementsAre(1));
}

TEST(FeatureGroups, JoinWhatReadsAndWritesInOneDirection) {
  LayerTranscoder layer;
  layer.encoder = at::tensor({1.0F, 0.0F, 0.0F, 1.0F, 3.0F, 0.3F, 1.0F, 0.1F}).view({4, 2});
  layer.decoder = at::tensor({1.0F, 0.0F, 1.0F, 0.0F, 5.0F, 1.0F, 0.0F, 1.0F}).view({4, 1, 2});
  Transcoders set;
  set.layers = {layer};
  // 2 is like 0 in both; 1 only writes like it, 3 only reads like it.
  EXPECT_THAT(group_features(set), ElementsAre(ElementsAre(0, 1, 0, 3)));
}

}  // namespace
}  // namespace openwork
