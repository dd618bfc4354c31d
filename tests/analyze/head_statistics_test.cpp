// Statistics against numbers worked out by hand, and against the same numbers computed plainly from a model's
// own patterns.
#include "analyze/heads/head_statistics.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "analyze/heads/head_classes.h"
#include "analyze/heads/pattern_numbers.h"
#include "base/error.h"
#include "base/prompt_interval.h"
#include "model/load.h"

namespace openwork {
namespace {

// Models this small run faster on one thread, and much faster where other tests run beside them.
const bool kOneThread = (at::set_num_threads(1), true);

// Four tokens; row 3 is empty, so that it counts for means and not for the entropy.
constexpr float kWorked[] = {
    1,     0,     0,    0,  //
    0.25f, 0.75f, 0,    0,  //
    0.6f,  0.2f,  0.2f, 0,  //
    0,     0,     0,    0,
};

TEST(PatternNumbers, AreThoseWorkedOutByHand) {
  const float norms[] = {1, 2, 4, 8};
  const HeadNumbers numbers = measure_pattern({kWorked, 4, nullptr, norms});
  EXPECT_NEAR(numbers[Statistic::kMass], 2.0 / 3, 1e-7);
  EXPECT_NEAR(numbers[Statistic::kSelf], 0.95 / 3, 1e-7);
  EXPECT_NEAR(numbers[Statistic::kPrevious], 0.45 / 3, 1e-7);
  EXPECT_NEAR(numbers[Statistic::kSink], 0.85 / 3, 1e-7);
  EXPECT_EQ(numbers[Statistic::kColumn], 0) << "no column has eight rows below it";
  EXPECT_EQ(numbers[Statistic::kSpreadRow], 1) << "row 2: 0.6, 0.2, 0.2 are all above 1/6";
  EXPECT_NEAR(numbers[Statistic::kLocal], 2.0 / 3, 1e-7);
  const double row1 = -(0.25 * std::log(0.25) + 0.75 * std::log(0.75)) / std::log(2.0);
  const double row2 = -(0.6 * std::log(0.6) + 0.4 * std::log(0.2)) / std::log(3.0);
  EXPECT_NEAR(numbers[Statistic::kEntropy], (row1 + row2) / 2, 1e-6);
  EXPECT_NEAR(numbers[Statistic::kPeak], 1.35 / 3, 1e-7);
  EXPECT_EQ(numbers[Statistic::kStrong], 1) << "only 0.6 at (2, 0)";
  EXPECT_EQ(numbers[Statistic::kKept], 9);
  EXPECT_EQ(numbers[Statistic::kDensity], 1);
  EXPECT_NEAR(numbers[Statistic::kValueMass], (0.25 + 1.5 + 0.6 + 0.4 + 0.8) / 3, 1e-6);
  EXPECT_TRUE(std::isnan(numbers[Statistic::kInduction]));
}

TEST(PatternNumbers, CountOpenGatesInRowsFromTheSecondOn) {
  const float gate[] = {1, 0, 0, 1, 1, 0, 0, 1, 0};
  const float pattern[] = {1, 0, 0, 0.5f, 0.5f, 0, 0, 0.25f, 0};
  const HeadNumbers numbers = measure_pattern({pattern, 3, gate});
  EXPECT_EQ(numbers[Statistic::kKept], 3);
  EXPECT_DOUBLE_EQ(numbers[Statistic::kDensity], 3.0 / 5);
  EXPECT_DOUBLE_EQ(numbers[Statistic::kMass], 1.25 / 2);
}

TEST(PatternNumbers, OfTwoTokensComeFromTheOneRow) {
  const float pattern[] = {1, 0, 0.25f, 0.75f};
  const HeadNumbers numbers = measure_pattern({pattern, 2});
  EXPECT_EQ(numbers[Statistic::kMass], 1);
  EXPECT_EQ(numbers[Statistic::kSelf], 0.75);
  EXPECT_EQ(numbers[Statistic::kPrevious], 0.25);
  EXPECT_EQ(numbers[Statistic::kSink], 0.25);
  EXPECT_EQ(numbers[Statistic::kStrong], 0) << "0.75 is on the diagonal";
  EXPECT_EQ(numbers[Statistic::kSpreadRow], 0.5) << "0.25 is not above 1/4";
}

TEST(PatternNumbers, OfOneTokenAreNotNumbers) {
  const float pattern[] = {1};
  for (const double value : measure_pattern({pattern, 1}).values) EXPECT_TRUE(std::isnan(value));
  EXPECT_TRUE(std::isnan(uniform_local_mass(1)));
}

TEST(PatternNumbers, OfAnEmptyPatternAreZeroAndHaveNoEntropy) {
  const std::vector<float> pattern(25, 0.0f);
  const HeadNumbers numbers = measure_pattern({pattern.data(), 5, pattern.data()});
  EXPECT_EQ(numbers[Statistic::kMass], 0);
  EXPECT_EQ(numbers[Statistic::kKept], 0);
  EXPECT_EQ(numbers[Statistic::kPeak], 0);
  EXPECT_TRUE(std::isnan(numbers[Statistic::kEntropy]));
  EXPECT_EQ(numbers.share(Statistic::kSelf), 0);
}

TEST(PatternNumbers, ColumnNeedsEightRowsBelowItOrAnEighthOfThePrompt) {
  const auto column_of = [](int64_t tokens, int64_t column) {
    std::vector<float> pattern(static_cast<size_t>(tokens * tokens), 0.0f);
    for (int64_t i = column; i < tokens; ++i)
      pattern[static_cast<size_t>(i * tokens + column)] = i == column ? 1.0f : 0.5f;
    return measure_pattern({pattern.data(), tokens})[Statistic::kColumn];
  };
  EXPECT_EQ(column_of(10, 1), 0.5) << "eight rows below column 1; its own row does not count";
  EXPECT_EQ(column_of(10, 2), 0) << "seven rows";
  EXPECT_EQ(column_of(100, 86), 0.5) << "13 rows are an eighth of 100";
  EXPECT_EQ(column_of(100, 87), 0) << "12 are not";
  EXPECT_EQ(column_of(20, 0), 0) << "the sink is no other column";
}

TEST(PatternNumbers, LocalMassReachesEightTokensBack) {
  const int64_t T = 12;
  std::vector<float> pattern(T * T, 0.0f);
  pattern[10 * T + 2] = 1;  // eight back
  pattern[11 * T + 2] = 1;  // nine back
  EXPECT_NEAR(measure_pattern({pattern.data(), T})[Statistic::kLocal], 1.0 / 11, 1e-9);
  std::vector<float> even(T * T, 0.0f);
  for (int64_t i = 0; i < T; ++i) {
    for (int64_t j = 0; j <= i; ++j) even[static_cast<size_t>(i * T + j)] = 1.0f / static_cast<float>(i + 1);
  }
  EXPECT_NEAR(measure_pattern({even.data(), T})[Statistic::kLocal], uniform_local_mass(T), 1e-6);
  EXPECT_NEAR(measure_pattern({even.data(), T})[Statistic::kEntropy], 1, 1e-6);
}

TEST(PatternNumbers, FindInductionAndDuplicateTokensInTheSecondCopy) {
  const int64_t before = 1, S = 3, T = 7;
  std::vector<float> pattern(T * T, 0.0f);
  for (int64_t i = before + S; i < T; ++i) {
    pattern[static_cast<size_t>(i * T + i - S + 1)] = 0.5f;
    pattern[static_cast<size_t>(i * T + i - S)] = 0.25f;
  }
  pattern[static_cast<size_t>(2 * T + 1)] = 1;  // the first copy does not count
  HeadNumbers numbers;
  measure_repeat({pattern.data(), T}, before, S, numbers);
  EXPECT_EQ(numbers[Statistic::kInduction], 0.5);
  EXPECT_EQ(numbers[Statistic::kDuplicate], 0.25);
  EXPECT_EQ(numbers[Statistic::kRepeatMass], 0.75);
}

TEST(PromptInterval, LeavesMissingValuesOutAndHoldsTheMean) {
  const double none = std::nan("");
  const PromptResampler resampler(5, 3);
  const MeanInterval some = resampler.summarise(std::vector<double>{1, 2, none, 3, 4});
  EXPECT_DOUBLE_EQ(some.mean, 2.5);
  EXPECT_LT(some.low, 2.5);
  EXPECT_GT(some.high, 2.5);
  EXPECT_GE(some.low, 1);
  EXPECT_LE(some.high, 4);
  EXPECT_TRUE(std::isnan(resampler.summarise(std::vector<double>(5, none)).mean));
  const MeanInterval one = PromptResampler(1, 3).summarise(std::vector<double>{7});
  EXPECT_TRUE(std::isnan(one.low) && std::isnan(one.high)) << "one value has no interval";
}

// The mean over prompts of `value` of a head's pattern, gates and |v W_O|, from an ordinary tapped pass.
double plain_mean(const Transformer& model, const std::vector<std::vector<int64_t>>& prompts, int64_t layer,
                  int64_t head,
                  const std::function<double(const Tensor& A, const Tensor& z, const Tensor& norms)>& value) {
  double sum = 0;
  for (const auto& ids : prompts) {
    Tensor A, z, v;
    Taps taps;
    taps.read({Site::kPattern, layer}, [&](const Tensor& x) { A = x[0][head]; });
    taps.read({Site::kGate, layer}, [&](const Tensor& x) { z = x[0][head]; });
    taps.read({Site::kValue, layer},
              [&](const Tensor& x) { v = x[0].select(1, head / model.config().group_size()); });
    ForwardOptions options;
    options.taps = &taps;
    model.forward(at::tensor(ids, at::kLong).unsqueeze(0), options);
    const int64_t d = model.config().head_size;
    const Tensor write = model.layer(layer).attention_output.matrix().narrow(1, head * d, d);  // [D, d]
    sum += value(A, z, at::matmul(v, write.t()).norm(2, -1));
  }
  return sum / static_cast<double>(prompts.size());
}

void expect_plain_statistics(const std::string& path) {
  const Transformer model = load_model(path);
  const std::vector<std::vector<int64_t>> prompts = {{5, 9, 2, 7, 7, 1, 3, 11, 12, 20, 8, 5},
                                                     {4, 4, 8, 15, 16, 23, 42}};
  const ModelStatistics statistics = measure_heads(model, prompts, {});
  ASSERT_EQ(static_cast<int64_t>(statistics.records.size()), model.config().layers * model.config().heads);
  for (const HeadRecord& record : statistics.records) {
    const auto rows = [](const Tensor& A) { return A.narrow(0, 1, A.size(0) - 1); };
    const auto mean = [&](const auto& value) {
      return plain_mean(model, prompts, record.place.layer, record.place.head, value);
    };
    const std::string where = path + " " + record.place.name();
    EXPECT_NEAR(record.mean[Statistic::kMass],
                mean([&](auto& A, auto&, auto&) { return rows(A).sum(-1).mean().template item<double>(); }),
                1e-5)
        << where;
    EXPECT_NEAR(record.mean[Statistic::kPrevious],
                mean([&](auto& A, auto&, auto&) { return A.diagonal(-1).mean().template item<double>(); }),
                1e-5)
        << where;
    EXPECT_NEAR(record.mean[Statistic::kPeak],
                mean([&](auto& A, auto&, auto&) { return rows(A).amax(-1).mean().template item<double>(); }),
                1e-5)
        << where;
    EXPECT_NEAR(record.mean[Statistic::kValueMass], mean([&](auto& A, auto&, auto& norms) {
                  return (rows(A) * norms).sum(-1).mean().template item<double>();
                }),
                1e-5)
        << where;
    EXPECT_NEAR(record.mean[Statistic::kKept], mean([&](auto& A, auto& z, auto&) {
                  return z.defined() ? rows(z).sum().template item<double>()
                                     : static_cast<double>(A.size(0) * (A.size(0) + 1) / 2 - 1);
                }),
                1e-9)
        << where;
    EXPECT_LE(record.low[Statistic::kMass], record.mean[Statistic::kMass] + 1e-12) << where;
    EXPECT_GE(record.high[Statistic::kMass], record.mean[Statistic::kMass] - 1e-12) << where;
  }
}

TEST(HeadStatistics, AreThoseOfTheModelsOwnPatterns) {
  for (const char* path : {"tests/data/gpt2", "tests/data/llama", "tests/data/olmo2",
                           "tests/data/sparse_gpt2_published", "tests/data/llama_idle"})
    expect_plain_statistics(path);
}

TEST(HeadStatistics, RepeatForTheSameSeed) {
  const Transformer model = load_model("tests/data/llama");
  const std::vector<std::vector<int64_t>> prompts = {{5, 9, 2, 7}, {1, 2, 3}, {3, 2, 1}};
  const ModelStatistics one = measure_heads(model, prompts, {.seed = 4}),
                        again = measure_heads(model, prompts, {.seed = 4}),
                        other = measure_heads(model, prompts, {.seed = 5});
  EXPECT_EQ(one.records[3].mean[Statistic::kInduction], again.records[3].mean[Statistic::kInduction]);
  EXPECT_EQ(one.records[3].low[Statistic::kSelf], again.records[3].low[Statistic::kSelf]);
  EXPECT_NE(one.records[3].mean[Statistic::kInduction], other.records[3].mean[Statistic::kInduction]);
}

// All of a short row is local, however many such prompts there are.
TEST(HeadStatistics, OfShortPromptsUniformLocalMassIsOne) {
  const Transformer model = load_model("tests/data/gpt2");
  for (const size_t prompts : {1, 3, 6, 7, 10, 49})
    EXPECT_EQ(measure_heads(model, std::vector<std::vector<int64_t>>(prompts, {5, 17, 80, 2, 41}), {})
                  .uniform_local,
              1);
}

TEST(HeadStatistics, RefusePromptsWithoutASecondToken) {
  const Transformer model = load_model("tests/data/llama");
  EXPECT_THROW(measure_heads(model, {{5}}, {}), Error);
  EXPECT_THROW(measure_heads(model, {}, {}), Error);
}

TEST(HeadStatistics, DrawDistinctTokensAndRepeatThemBehindTheBeginning) {
  StatisticsOptions options;
  options.beginning = {0};
  options.random_from = {3, 4, 5, 6, 7};
  const std::vector<int64_t> prompt = make_repeated_prompt(options, 100, 5, 2);
  ASSERT_EQ(prompt.size(), 11u);
  EXPECT_EQ(prompt[0], 0);
  EXPECT_EQ(std::set<int64_t>(prompt.begin() + 1, prompt.begin() + 6), (std::set<int64_t>{3, 4, 5, 6, 7}));
  EXPECT_TRUE(std::equal(prompt.begin() + 1, prompt.begin() + 6, prompt.begin() + 6));
  EXPECT_NE(make_repeated_prompt(options, 100, 5, 3), prompt);
}

// The model's card names these heads; they must lead their kinds.
TEST(HeadStatistics, FindTheKnownHeadsOfTheBuiltInModel) {
  const Transformer model = load_model("models/openwork-8m");
  const std::vector<std::vector<int64_t>> prompts = {make_repeated_prompt({.seed = 9}, 8192, 20, 0),
                                                     make_repeated_prompt({.seed = 9}, 8192, 20, 1)};
  const ModelStatistics statistics = measure_heads(model, prompts, {.interactions = false});
  const auto rank = [&](Statistic statistic) {
    std::vector<const HeadRecord*> order;
    for (const HeadRecord& record : statistics.records) order.push_back(&record);
    std::sort(order.begin(), order.end(),
              [&](auto* a, auto* b) { return a->mean[statistic] > b->mean[statistic]; });
    return std::vector<std::string>{order[0]->place.name(), order[1]->place.name()};
  };
  const std::vector<std::string> induction = rank(Statistic::kInduction);
  EXPECT_EQ(std::set<std::string>(induction.begin(), induction.end()),
            (std::set<std::string>{"L6H0", "L6H3"}));
  EXPECT_EQ(rank(Statistic::kPrevious)[0], "L5H6");
  EXPECT_EQ(statistics.records[6 * 8 + 0].kind, HeadClass::kInduction);
  EXPECT_EQ(statistics.records[6 * 8 + 3].kind, HeadClass::kInduction);
  EXPECT_EQ(statistics.records[5 * 8 + 6].kind, HeadClass::kPrevious);
}

}  // namespace
}  // namespace openwork
