#include "base/interval.h"
#include "base/bootstrap.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/interval_text.h"
#include "base/prompt_interval.h"

namespace openwork {
namespace {

TEST(BootstrapRatio, HoldsTheRatioAndShrinksWithMoreDocuments) {
  const auto width = [](size_t count) {
    std::vector<double> totals, weights;
    for (size_t n = 0; n < count; ++n) {
      weights.push_back(100.0 + static_cast<double>(n % 7));
      totals.push_back(weights.back() *
                       (3.0 + 0.2 * static_cast<double>(n % 5)));  // ratios 3.0 .. 3.8, mean 3.4
    }
    const Interval interval = bootstrap_ratio(totals, weights, 1);
    EXPECT_LT(interval.low, 3.4);
    EXPECT_GT(interval.high, 3.4);
    return interval.high - interval.low;
  };
  const double few = width(35), many = width(35 * 16);
  EXPECT_NEAR(few / many, 4.0, 0.8);  // one over the square root of the count
}

TEST(BootstrapRatio, OneDocumentHasNoInterval) {
  const std::vector<double> total = {7}, weight = {2};
  EXPECT_FALSE(exists(bootstrap_ratio(total, weight, 3)));
  EXPECT_EQ(interval_text(bootstrap_ratio(total, weight, 3), 4), "no interval");
  EXPECT_EQ(interval_text({1.23456, 2}, 3), "[1.235, 2.000]");
}

TEST(PromptResampler, OnePromptHasNoInterval) {
  const MeanInterval one = PromptResampler(1, 3).summarise(std::vector<double>{7});
  EXPECT_EQ(one.mean, 7);
  EXPECT_TRUE(std::isnan(one.low) && std::isnan(one.high));
  const double none = std::nan("");
  EXPECT_TRUE(std::isnan(PromptResampler(3, 3).summarise(std::vector<double>{none, 7, none}).low))
      << "one number among them";
}

TEST(BootstrapStatistic, OfAMeanIsThatOfTheRatio) {
  const std::vector<double> values = {1, 2, 3, 4, 5, 9}, ones(6, 1);
  const Interval ratio = bootstrap_ratio(values, ones, 5);
  const Interval mean = bootstrap_statistic(
      6,
      [&](const std::vector<size_t>& drawn) {
        double sum = 0;
        for (const size_t n : drawn) sum += values[n];
        return sum / 6;
      },
      5);
  EXPECT_DOUBLE_EQ(mean.low, ratio.low);
  EXPECT_DOUBLE_EQ(mean.high, ratio.high);
}

TEST(BootstrapStatistic, OneThingHasNoInterval) {
  EXPECT_FALSE(exists(bootstrap_statistic(
      1, [](const std::vector<size_t>&) { return 7.0; }, 3)));
  EXPECT_FALSE(exists(bootstrap_statistic(
      4, [](const std::vector<size_t>&) { return std::nan(""); }, 3)));
}

TEST(BootstrapRatio, IsAFunctionOfItsSeed) {
  const std::vector<double> totals = {1, 2, 3, 4, 5, 9}, weights = {1, 1, 1, 1, 1, 1};
  EXPECT_EQ(bootstrap_ratio(totals, weights, 5).low, bootstrap_ratio(totals, weights, 5).low);
}

// The normal approximation of the mean of 0..99: 49.5 +- 1.96 * 28.87 / 10.
TEST(BootstrapRatio, AgreesWithTheNormalInterval) {
  std::vector<double> totals, weights(100, 1.0);
  for (int n = 0; n < 100; ++n) totals.push_back(n);
  const Interval interval = bootstrap_ratio(totals, weights, 11, 10000);
  EXPECT_NEAR(interval.low, 49.5 - 5.66, 0.4);
  EXPECT_NEAR(interval.high, 49.5 + 5.66, 0.4);
}

}  // namespace
}  // namespace openwork
