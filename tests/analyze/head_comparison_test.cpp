// Tests between models, redundancy groups and interacting heads.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>

#include "analyze/heads/head_interaction.h"
#include "analyze/heads/head_statistics.h"
#include "analyze/heads/model_comparison.h"
#include "analyze/heads/redundancy.h"
#include "base/error.h"
#include "base/permutation_test.h"
#include "base/philox.h"
#include "model/load.h"

namespace openwork {
namespace {

// Models this small run faster on one thread, and much faster where other tests run beside them.
const bool kComparedOnOneThread = (at::set_num_threads(1), true);

// A standard normal number by Box and Muller, from two words of a counter.
double normal_of(uint64_t seed, uint64_t counter) {
  const Philox4 bits = philox(seed, counter);
  return std::sqrt(-2 * std::log(uniform_of(bits.word[0]))) *
         std::cos(6.283185307179586 * uniform_of(bits.word[1]));
}

TEST(SignFlips, GiveTheExactProbabilityOfAFewPrompts) {
  // Of the 2^5 sign patterns only the two of equal signs reach a sum of 5: p is about 2/32.
  EXPECT_NEAR(sign_flip_test(std::vector<double>(5, 1.0), 1), 2.0 / 32, 0.01);
  EXPECT_EQ(sign_flip_test(std::vector<double>(5, 0.0), 1), 1);
  EXPECT_EQ(sign_flip_test(std::vector<double>{0.3}, 1), 1) << "one prompt shows nothing";
  EXPECT_DOUBLE_EQ(sign_flip_test(std::vector<double>(40, 1.0), 1), 1.0 / 10001)
      << "no draw of 10,000 reaches it";
}

TEST(SignFlips, AreTwoSidedAndCountPromptsBeyond128) {
  std::vector<double> differences(300);
  for (size_t n = 0; n < differences.size(); ++n) differences[n] = 0.2 + normal_of(3, n);
  std::vector<double> negative = differences;
  for (double& difference : negative) difference = -difference;
  EXPECT_DOUBLE_EQ(sign_flip_test(differences, 7), sign_flip_test(negative, 7));
  EXPECT_LT(sign_flip_test(differences, 7), 0.05);
}

TEST(SignFlips, RejectAsOftenAsTheySayWhereNothingDiffers) {
  const int64_t experiments = 2000;
  int64_t at_five = 0, at_twenty = 0;
  for (int64_t experiment = 0; experiment < experiments; ++experiment) {
    std::vector<double> differences(16);
    for (size_t n = 0; n < differences.size(); ++n) {
      const double x = normal_of(11, static_cast<uint64_t>(experiment) * 16 + n);
      differences[n] = x * x * x;  // heavy tails, symmetric about 0
    }
    const double p = sign_flip_test(differences, static_cast<uint64_t>(experiment), 400);
    at_five += p <= 0.05, at_twenty += p <= 0.2;
  }
  // Binomial, 2000 trials: 3.5 standard errors are 0.017 and 0.031.
  EXPECT_NEAR(static_cast<double>(at_five) / experiments, 0.05, 0.017);
  EXPECT_NEAR(static_cast<double>(at_twenty) / experiments, 0.2, 0.031);
}

TEST(Holm, MultipliesStepByStepAndNeverFalls) {
  const std::vector<double> corrected = correct_by_holm(std::vector<double>{0.01, 0.04, 0.03, 0.6});
  EXPECT_DOUBLE_EQ(corrected[0], 0.04);
  EXPECT_DOUBLE_EQ(corrected[2], 0.09);
  EXPECT_DOUBLE_EQ(corrected[1], 0.09) << "2 x 0.04 is less than the one before it";
  EXPECT_DOUBLE_EQ(corrected[3], 0.6);
  EXPECT_DOUBLE_EQ(correct_by_holm(std::vector<double>{0.7, 0.8})[0], 1);
}

TEST(Redundancy, ChoosesWholeRowsThatFit) {
  EXPECT_EQ(choose_rows(4), (std::vector<int64_t>{3, 2, 1}));
  EXPECT_TRUE(choose_rows(1).empty());
  int64_t cells = 0;
  for (const int64_t row : choose_rows(2000)) cells += row + 1;
  EXPECT_LE(cells, kCellsPerPrompt * 11 / 10);
  EXPECT_GE(cells, kCellsPerPrompt / 2);
}

TEST(Redundancy, CorrelatesPatternsOverPrompts) {
  PatternCorrelation correlation(3);
  double a[2][9] = {{1, 0, 0, 0.5, 0.5, 0, 0.2, 0.3, 0.5}, {1, 0, 0, 0.9, 0.1, 0, 0.6, 0.3, 0.1}};
  double b[2][9] = {{1, 0, 0, 0.1, 0.9, 0, 0.5, 0.1, 0.4}, {1, 0, 0, 0.7, 0.3, 0, 0.1, 0.8, 0.1}};
  std::vector<double> x, y;
  for (int n = 0; n < 2; ++n) {
    correlation.begin_prompt(3);
    const std::vector<float> first(a[n], a[n] + 9), second(b[n], b[n] + 9), none(9, 0.0f);
    correlation.add_head(0, first.data());
    correlation.add_head(1, second.data());
    correlation.add_head(2, none.data());
    correlation.end_prompt();
    for (const int cell : {3, 4, 6, 7, 8}) x.push_back(a[n][cell]), y.push_back(b[n][cell]);
  }
  double mean_x = 0, mean_y = 0, xy = 0, xx = 0, yy = 0;
  for (size_t n = 0; n < x.size(); ++n) mean_x += x[n] / 10, mean_y += y[n] / 10;
  for (size_t n = 0; n < x.size(); ++n) {
    xy += (x[n] - mean_x) * (y[n] - mean_y), xx += (x[n] - mean_x) * (x[n] - mean_x),
        yy += (y[n] - mean_y) * (y[n] - mean_y);
  }
  const std::vector<double> r = correlation.correlations();
  EXPECT_NEAR(r[1], xy / std::sqrt(xx * yy), 1e-5);
  EXPECT_NEAR(r[0], 1, 1e-6);
  EXPECT_EQ(r[2], 0) << "a head that never varies correlates with none";
}

TEST(Redundancy, JoinsHeadsIntoGroupsAndCountsWhatIsLeft) {
  // 0-1 and 1-2 are alike, 3 stands alone, 4 and 5 are alike but 5 is blank.
  std::vector<double> r(36, 0.0);
  const auto set = [&](size_t a, size_t b, double value) { r[a * 6 + b] = r[b * 6 + a] = value; };
  for (size_t n = 0; n < 6; ++n) set(n, n, 1);
  set(0, 1, 0.95), set(1, 2, 0.92), set(0, 2, 0.8), set(4, 5, 0.99), set(0, 3, 0.89);
  const Redundancy redundancy = group_heads(r, {false, false, false, false, false, true}, 0.9);
  ASSERT_EQ(redundancy.groups.size(), 1u);
  EXPECT_EQ(redundancy.groups[0].heads, (std::vector<int64_t>{0, 1})) << "0 and 2 are not alike enough";
  EXPECT_DOUBLE_EQ(redundancy.groups[0].lowest_correlation, 0.95);
  EXPECT_EQ(redundancy.blank, 1);
  EXPECT_EQ(redundancy.distinct, 4);
  set(0, 2, 0.9);
  const Redundancy closer = group_heads(r, std::vector<bool>(6, false), 0.9);
  ASSERT_EQ(closer.groups.size(), 2u);
  EXPECT_EQ(closer.groups[0].heads, (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(closer.distinct, 3);
}

// The share of head `earlier` in one side of head `later`, by taking its output out of the later layer's
// input with the norm held, and looking at what the query, key or value vectors lose.
double plain_share(const Transformer& model, const std::vector<int64_t>& ids, const InteractingPair& pair) {
  const int64_t H = model.config().heads, early = pair.earlier / H, late = pair.later / H;
  const Site site = pair.side == 'q' ? Site::kQuery : pair.side == 'k' ? Site::kKey : Site::kValue;
  const int64_t reader = pair.side == 'q' ? pair.later % H : pair.later % H / model.config().group_size();
  const auto run = [&](Taps& taps) {
    Tensor seen;
    taps.read({site, late},
              [&](const Tensor& x) { seen = x[0].select(1, reader).narrow(0, 1, x.size(1) - 1).clone(); });
    ForwardOptions options;
    options.taps = &taps;
    model.forward(at::tensor(ids, at::kLong).unsqueeze(0), options);
    return seen;
  };
  Tensor part, scale;
  Taps plain, without, nothing;
  plain.read({Site::kResult, early}, [&](const Tensor& x) { part = x.select(2, pair.earlier % H).clone(); });
  plain.read({Site::kNorm1Scale, late}, [&](const Tensor& x) { scale = x.clone(); });
  const Tensor whole = run(plain);
  without.replace({Site::kResidPre, late}, [&](const Tensor& x) { return x - part; });
  without.replace({Site::kNorm1Scale, late}, [&](const Tensor&) { return scale; });
  nothing.replace({Site::kNorm1Normalized, late}, [&](const Tensor& x) { return at::zeros_like(x); });
  const Tensor rest = run(without), bias = run(nothing);
  return ((whole - rest).norm() / (whole - bias).norm()).item<double>();
}

TEST(HeadInteraction, IsWhatTheLaterHeadLosesWithoutTheEarlierOne) {
  const std::vector<int64_t> ids = {5, 9, 2, 7, 7, 1, 3};
  for (const char* path : {"tests/data/llama", "tests/data/gpt2", "tests/data/gpt_neox"}) {
    const Transformer model = load_model(path);
    StatisticsOptions options;
    options.interaction_level = 1e-9;
    const Interactions interactions = measure_heads(model, {ids}, options).interactions;
    const int64_t H = model.config().heads, layers = model.config().layers;
    EXPECT_EQ(interactions.pairs_by_prompt[0], static_cast<double>(H * H * layers * (layers - 1) / 2))
        << path;
    ASSERT_FALSE(interactions.strongest.empty());
    for (size_t n = 0; n < interactions.strongest.size(); n += 5) {
      const InteractingPair& pair = interactions.strongest[n];
      EXPECT_NEAR(pair.share, plain_share(model, ids, pair), 2e-4 * pair.share + 1e-6)
          << path << " " << pair.side << " " << pair.earlier << " " << pair.later;
    }
  }
}

TEST(Comparison, OfAModelWithItselfFindsNoDifference) {
  const Transformer model = load_model("tests/data/gpt2");
  const ModelStatistics statistics = measure_heads(model, {{1, 2, 3, 4}, {9, 8, 7, 6, 5}, {3, 3, 3}}, {});
  const std::vector<ComparisonRow> rows = compare_statistics(statistics, statistics, 0);
  EXPECT_EQ(rows.size(), 7u);
  for (const ComparisonRow& row : rows) {
    EXPECT_EQ(row.difference, 0) << row.key;
    EXPECT_EQ(row.p_corrected, 1) << row.key;
    EXPECT_EQ(row.prompts, 3) << row.key;
  }
}

TEST(Comparison, ReportsTheChangeAndItsTest) {
  ModelStatistics dense, sparse;
  dense.heads = sparse.heads = 2;
  for (int prompt = 0; prompt < 20; ++prompt) {
    HeadNumbers open, self, blank;
    for (double& value : open.values) value = 0;
    self = blank = open;
    open[Statistic::kMass] = 1, open[Statistic::kSink] = 1, open[Statistic::kDensity] = 1,
    open[Statistic::kPeak] = 0.5;
    self[Statistic::kMass] = 0.5, self[Statistic::kSelf] = 0.5, self[Statistic::kDensity] = 0.1,
    self[Statistic::kStrong] = 3;
    dense.by_prompt.push_back({open, open});
    sparse.by_prompt.push_back({self, blank});
  }
  const std::vector<ComparisonRow> rows = compare_statistics(dense, sparse, 0);
  const auto row_of = [&](const std::string& key) {
    return *std::find_if(rows.begin(), rows.end(), [&](const ComparisonRow& row) { return row.key == key; });
  };
  EXPECT_EQ(row_of("open_heads").sparse, 1);
  EXPECT_EQ(row_of("diagonal_dominant").dense, 0);
  EXPECT_EQ(row_of("diagonal_dominant").sparse, 1) << "of the heads that are not blank";
  EXPECT_DOUBLE_EQ(row_of("density").difference, 0.05 - 1);
  EXPECT_EQ(row_of("strong_cells").difference, 3);
  EXPECT_LT(row_of("density").p_corrected, 0.01);
  EXPECT_EQ(rows.size(), 6u) << "no interactions were measured";
  sparse.by_prompt.pop_back();
  EXPECT_THROW(compare_statistics(dense, sparse, 0), Error);
}

}  // namespace
}  // namespace openwork
