// Which heads are looked at, how they are collected and ordered, and head against head.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "analyze/comparison.h"
#include "analyze/heads/head_scatter.h"
#include "analyze/heads/head_selection.h"
#include "analyze/heads/model_heads.h"
#include "base/error.h"
#include "model/load.h"

namespace openwork {
namespace {

using testing::ElementsAre;

ModelConfig shape(int64_t layers, int64_t heads, GateKind gate = GateKind::kNone) {
  ModelConfig config;
  config.layers = layers, config.heads = heads, config.gate = gate;
  return config;
}

Tensor some_ids(const Transformer& model, int64_t tokens) {
  return at::arange(tokens, at::kLong).mul(7).remainder(model.config().vocabulary).view({1, tokens});
}

TEST(HeadSelection, TakesNumbersInEachLayerOrNames) {
  EXPECT_EQ(select_heads("", "", shape(2, 3)).size(), 6u);
  EXPECT_THAT(select_heads("odd", "0-1", shape(4, 3)),
              ElementsAre(HeadPlace{1, 0}, HeadPlace{1, 1}, HeadPlace{3, 0}, HeadPlace{3, 1}));
  EXPECT_THAT(select_heads("", "L1H2,L0H0,L1H2", shape(2, 3)), ElementsAre(HeadPlace{1, 2}, HeadPlace{0, 0}));
  EXPECT_THROW(select_heads("", "L2H0", shape(2, 3)), Error);
  EXPECT_THROW(select_heads("0", "L1H0", shape(2, 3)), Error);
}

TEST(HeadSelection, SamplesALargeDenseModelOnly) {
  EXPECT_EQ(sample_heads("", "", shape(8, 8)).size(), 64u);
  EXPECT_EQ(sample_heads("", "", shape(32, 32, GateKind::kScore)).size(), 1024u);
  const std::vector<HeadPlace> sampled = sample_heads("", "", shape(32, 32));
  EXPECT_EQ(sampled.size(), 16u * 16u);
  EXPECT_EQ(sampled.back(), (HeadPlace{30, 15}));
}

TEST(HeadSelection, SpacesWholeLayersEvenly) {
  EXPECT_EQ(whole_layers(shape(8, 8), 512).size(), 64u);
  const std::vector<HeadPlace> places = whole_layers(shape(6, 2), 6);
  EXPECT_THAT(places, ElementsAre(HeadPlace{0, 0}, HeadPlace{0, 1}, HeadPlace{2, 0}, HeadPlace{2, 1},
                                  HeadPlace{4, 0}, HeadPlace{4, 1}));
  EXPECT_EQ(whole_layers(shape(6, 8), 3).size(), 8u) << "one layer at least";
}

TEST(ModelHeads, KeepThePatternWhereEveryPairIsACell) {
  const Transformer model = load_model("tests/data/gpt2");
  const Tensor ids = some_ids(model, 9);
  HeadsSettings settings;
  settings.heads = {{1, 0}, {0, 1}};
  settings.cells = 9;
  settings.show_blank = true;
  const ModelHeads heads = collect_heads(model, ids, settings);
  ASSERT_EQ(heads.shown.size(), 2u);
  EXPECT_EQ(heads.shown[0].place, (HeadPlace{1, 0})) << "in the order given";
  EXPECT_EQ(heads.tokens, 9);
  EXPECT_EQ(heads.looked_at, 2);
  visit_patterns(model, ids, [&](const PatternView& pattern) {
    for (const CollectedHead& head : heads.shown) {
      if (head.place != pattern.place) continue;
      EXPECT_EQ(head.cells.values, std::vector<float>(pattern.values.begin(), pattern.values.end()));
    }
  });
}

TEST(ModelHeads, StandByTheTasksEffectAndThenByStrength) {
  const Transformer model = load_model("tests/data/gpt2");
  HeadsSettings settings;
  settings.heads = {{0, 0}, {0, 1}, {1, 0}};
  settings.order = HeadOrder::kImportance;
  settings.show_blank = true;
  settings.task = TaskNeeds{.task = "copy",
                            .order = {{1, 0}, {0, 0}, {0, 1}},
                            .importance = {{{0, 0}, 0.2}, {{0, 1}, 0.1}, {{1, 0}, 0.9}},
                            .needed = 1};
  EXPECT_TRUE(settings.task->needs({1, 0}));
  EXPECT_FALSE(settings.task->needs({0, 0}));
  const ModelHeads by_effect = collect_heads(model, some_ids(model, 8), settings);
  EXPECT_EQ(by_effect.shown[0].place, (HeadPlace{1, 0}));
  EXPECT_EQ(by_effect.shown[2].place, (HeadPlace{0, 1}));
  settings.task.reset();
  const ModelHeads by_strength = collect_heads(model, some_ids(model, 8), settings);
  EXPECT_GE(by_strength.shown[0].strength, by_strength.shown[1].strength);
  EXPECT_GE(by_strength.shown[1].strength, by_strength.shown[2].strength);
}

TEST(HeadScatter, HasOnePointPerCausalPairAndSymmetricCorrelations) {
  const Transformer model = load_model("tests/data/gpt2");
  const Tensor ids = some_ids(model, 10);
  const std::vector<HeadPlace> places = find_sharpest(model, ids, 3);
  ASSERT_EQ(places.size(), 3u);
  EXPECT_TRUE(std::is_sorted(places.begin(), places.end()));
  const HeadScatter scatter = scatter_heads(model, ids, places);
  for (size_t a = 0; a < 3; ++a) {
    EXPECT_EQ(scatter.values[a].size(), 55u);
    EXPECT_EQ(scatter.pearson[a][a], 1);
    for (size_t b = 0; b < 3; ++b) EXPECT_EQ(scatter.spearman[a][b], scatter.spearman[b][a]);
  }
}

TEST(Comparison, HoldsAnyNumberOfModelsAgainstTheFirst) {
  const Transformer model = load_model("models/openwork-8m");
  const Tokenizer tokenizer = Tokenizer::from_file("models/openwork-8m");
  ComparedText text;
  text.tokenizer = &tokenizer;
  for (const char* prompt : {"The king went to the city.", "One day the captain said"}) {
    const std::vector<int32_t> ids = tokenizer.encode(prompt);
    text.prompts.emplace_back(ids.begin(), ids.end());
  }
  text.shown = text.prompts[0];
  text.held_out = blocks_of_texts({"The king went to the city.", "One day"}, tokenizer, 0, 64);
  EXPECT_EQ(text.held_out.count, 1) << "all of a short text is one block";
  ComparisonSettings settings;
  settings.statistics.interactions = false;
  settings.generate = 0, settings.capability = 4;
  Comparison comparison;
  for (const char* name : {"one", "two", "three"}) add_model(comparison, model, name, text, settings);
  ASSERT_EQ(comparison.models.size(), 3u);
  ASSERT_EQ(comparison.statistics.comparisons.size(), 2u);
  EXPECT_EQ(comparison.statistics.comparisons[1].dense, "one");
  EXPECT_EQ(comparison.statistics.comparisons[1].sparse, "three");
  for (const ComparisonRow& row : comparison.statistics.comparisons[1].rows)
    EXPECT_EQ(row.difference, 0) << row.key << ": a model beside itself";
  for (const ComparedModel& found : comparison.models) {
    ASSERT_TRUE(found.scatter.has_value());
    EXPECT_EQ(found.scatter->places, comparison.scatter_heads);
    EXPECT_EQ(found.heads.shown.size(), 64u);
    EXPECT_EQ(found.heads.pieces.size(), text.shown.size());
    EXPECT_TRUE(found.continuations.empty());
    ASSERT_EQ(found.capability.tests.size(), 7u);
    EXPECT_EQ(found.capability.tests[0].name, "copy");
    EXPECT_EQ(found.capability.tests[3].bins.at(0).scores.size(), 4u);
    EXPECT_EQ(found.capability.tests[3].bins.at(0).scores,
              comparison.models[0].capability.tests[3].bins.at(0).scores);
    EXPECT_EQ(found.loss.nats_per_token, comparison.models[0].loss.nats_per_token);
  }
}

}  // namespace
}  // namespace openwork
