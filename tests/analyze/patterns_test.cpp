// Patterns as visit_patterns hands them out, and how alike two of them are.
#include "analyze/heads/patterns.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "base/correlation.h"
#include "model/load.h"

namespace openwork {
namespace {

Tensor some_ids(int64_t prompts, int64_t tokens, int64_t vocabulary) {
  return at::arange(prompts * tokens, at::kLong).mul(7).remainder(vocabulary).view({prompts, tokens});
}

// [L][H] -> [T, T], straight from the taps of one forward pass.
std::vector<Tensor> tapped_patterns(const Transformer& model, const Tensor& ids) {
  std::vector<Tensor> patterns(static_cast<size_t>(model.config().layers));
  Taps taps;
  for (int64_t layer = 0; layer < model.config().layers; ++layer) {
    taps.read({Site::kPattern, layer}, [&patterns, layer](const Tensor& pattern) {
      patterns[static_cast<size_t>(layer)] = pattern.mean(0);
    });
  }
  ForwardOptions options;
  options.taps = &taps;
  model.forward(ids, options);
  return patterns;  // [H, T, T] each
}

TEST(Patterns, AreThoseOfOneForwardPassAndTheMeanOverPrompts) {
  for (const char* fixture : {"gpt2", "llama", "sparse_gpt2_published"}) {
    const Transformer model = load_model(std::string("tests/data/") + fixture);
    const Tensor ids = some_ids(3, 11, model.config().vocabulary);
    const std::vector<Tensor> expected = tapped_patterns(model, ids);
    std::mutex mutex;
    int64_t seen = 0;
    visit_patterns(model, ids, [&](const PatternView& pattern) {
      const std::lock_guard lock(mutex);
      ++seen;
      const Tensor want = expected[static_cast<size_t>(pattern.place.layer)][pattern.place.head].contiguous();
      for (int64_t i = 0; i < 11; ++i) {
        for (int64_t j = 0; j < 11; ++j)
          EXPECT_NEAR(pattern.at(i, j), want[i][j].item<float>(), 1e-5)
              << fixture << " " << pattern.place.name();
      }
    });
    EXPECT_EQ(seen, model.config().layers * model.config().heads);
  }
}

TEST(Patterns, SummaryFindsMassPeakAndTheStrongestMoves) {
  const std::vector<float> values = {1,    0,    0,    0,  //
                                     0.4F, 0.6F, 0,    0,  //
                                     0.1F, 0.7F, 0.2F, 0,  //
                                     0,    0.3F, 0.5F, 0};
  const PatternSummary summary = summarise_pattern({{2, 1}, 4, values}, 2);
  EXPECT_NEAR(summary.mass, (1 + 1 + 0.8) / 3, 1e-6);
  EXPECT_NEAR(summary.peak, (0.6 + 0.7 + 0.5) / 3, 1e-6);
  ASSERT_EQ(summary.strongest.size(), 2u);  // not the first key, not the token itself
  EXPECT_EQ(summary.strongest[0].query, 2);
  EXPECT_EQ(summary.strongest[0].key, 1);
  EXPECT_EQ(summary.strongest[1].query, 3);
  EXPECT_EQ(summary.strongest[1].key, 2);
  EXPECT_FALSE(summary.blank());
}

TEST(Patterns, OneTokenIsItsOwnRowAndAnEmptyHeadIsBlank) {
  const std::vector<float> one = {1}, none = {0};
  EXPECT_EQ(summarise_pattern({{0, 0}, 1, one}, 4).mass, 1);
  EXPECT_TRUE(summarise_pattern({{0, 0}, 1, one}, 4).strongest.empty());
  EXPECT_TRUE(summarise_pattern({{0, 0}, 1, none}, 4).blank());
  const std::vector<float> first_row_only = {1, 0, 0, 0};  // docs/method.md, 3 counts rows from the second on
  EXPECT_TRUE(summarise_pattern({{0, 0}, 2, first_row_only}, 4).blank());
}

TEST(Patterns, CausalValuesAreTheLowerTriangleRowByRow) {
  const std::vector<float> values = {1, 9, 9, 2, 3, 9, 4, 5, 6};
  EXPECT_EQ(causal_values({{0, 0}, 3, values}), (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

TEST(Correlation, AgreesWithNumbersWorkedOutByHand) {
  const std::vector<float> a = {1, 2, 3, 4}, b = {1, 3, 2, 10}, c = {5, 5, 5, 5};
  EXPECT_NEAR(pearson_correlation(a, b), 13 / std::sqrt(5.0 * 50.0), 1e-12);
  EXPECT_NEAR(spearman_correlation(a, b), 0.8, 1e-12);
  EXPECT_NEAR(pearson_correlation(a, a), 1, 1e-12);
  EXPECT_TRUE(std::isnan(pearson_correlation(a, c)));
  EXPECT_TRUE(std::isnan(spearman_correlation(c, a)));
}

TEST(Correlation, TiesShareTheirMeanRank) {
  const std::vector<float> values = {0, 7, 0, 3, 0};
  EXPECT_EQ(rank_values(values), (std::vector<double>{2, 5, 2, 4, 2}));
}

}  // namespace
}  // namespace openwork
