// The classifier on drawn patterns: one of each class, and mixtures of two.
#include "analyze/heads/head_classes.h"

#include <gtest/gtest.h>

#include <functional>

#include "analyze/heads/pattern_numbers.h"

namespace openwork {
namespace {

constexpr int64_t kTokens = 48, kRepeat = 24;

using Cell = std::function<double(int64_t i, int64_t j)>;  // not normalised; only j <= i is asked

// Rows sum to `mass`, where they have anything.
std::vector<float> draw_pattern(const Cell& cell, double mass = 1) {
  std::vector<float> pattern(static_cast<size_t>(kTokens * kTokens), 0.0f);
  for (int64_t i = 0; i < kTokens; ++i) {
    double sum = 0;
    for (int64_t j = 0; j <= i; ++j) sum += cell(i, j);
    for (int64_t j = 0; j <= i && sum > 0; ++j)
      pattern[static_cast<size_t>(i * kTokens + j)] = static_cast<float>(mass * cell(i, j) / sum);
  }
  return pattern;
}

// The drawn pattern is looked at twice: as text, and as a text of kRepeat tokens twice (where only heads
// drawn to look for them find their tokens again).
HeadNumbers numbers_of(const std::vector<float>& text, const std::vector<float>& repeated) {
  HeadNumbers numbers = measure_pattern({text.data(), kTokens});
  measure_repeat({repeated.data(), kTokens}, 0, kRepeat, numbers);
  return numbers;
}

HeadClass class_of(const Cell& cell, double mass = 1) {
  const std::vector<float> pattern = draw_pattern(cell, mass);
  return classify_head(numbers_of(pattern, pattern), uniform_local_mass(kTokens));
}

double self(int64_t i, int64_t j) {
  return i == j;
}
double previous(int64_t i, int64_t j) {
  return j == i - 1 || (i == 0 && j == 0);
}
double sink(int64_t, int64_t j) {
  return j == 0;
}
double even(int64_t, int64_t) {
  return 1;
}
double near(int64_t i, int64_t j) {
  return j > i - 6;
}
double block(int64_t i, int64_t j) {
  return i / 6 == j / 6;
}
double column(int64_t i, int64_t j) {
  return i > 5 ? j == 5 : i == j;
}
double few_rows(int64_t i, int64_t) {
  return i % 8 == 7;
}
double induction(int64_t i, int64_t j) {
  return i >= kRepeat ? j == i - kRepeat + 1 : j == 0;
}
double duplicate(int64_t i, int64_t j) {
  return i >= kRepeat ? j == i - kRepeat : j == 0;
}

Cell mix(const Cell& a, double weight, const Cell& b) {
  return [=](int64_t i, int64_t j) {
    double sum_a = 0, sum_b = 0;
    for (int64_t k = 0; k <= i; ++k) sum_a += a(i, k), sum_b += b(i, k);
    return (sum_a > 0 ? weight * a(i, j) / sum_a : 0) + (sum_b > 0 ? (1 - weight) * b(i, j) / sum_b : 0);
  };
}

TEST(HeadClasses, KnowADrawnPatternOfEachKind) {
  EXPECT_EQ(class_of(self), HeadClass::kSelf);
  EXPECT_EQ(class_of(previous), HeadClass::kPrevious);
  EXPECT_EQ(class_of(sink), HeadClass::kSink);
  EXPECT_EQ(class_of(column), HeadClass::kVertical);
  EXPECT_EQ(class_of(near), HeadClass::kLocal);
  EXPECT_EQ(class_of(block), HeadClass::kLocal);
  EXPECT_EQ(class_of(few_rows), HeadClass::kHorizontal);
  EXPECT_EQ(class_of(even), HeadClass::kDiffuse);
  EXPECT_EQ(class_of(induction), HeadClass::kInduction);
  EXPECT_EQ(class_of(duplicate), HeadClass::kDuplicate);
  EXPECT_EQ(class_of([](int64_t, int64_t) { return 0.0; }), HeadClass::kBlank);
}

TEST(HeadClasses, JudgeASparseHeadByWhereItsMassIs) {
  EXPECT_EQ(class_of(self, 0.02), HeadClass::kSelf);
  EXPECT_EQ(class_of(column, 0.02), HeadClass::kVertical);
  EXPECT_EQ(class_of(induction, 0.05), HeadClass::kInduction);
  EXPECT_EQ(class_of(few_rows, 0.3), HeadClass::kHorizontal) << "few_rows has mass in one row of eight";
  EXPECT_EQ(class_of(self, 0.009), HeadClass::kBlank);
}

TEST(HeadClasses, TakeTheLargerPartOfAMixture) {
  EXPECT_EQ(class_of(mix(self, 0.6, sink)), HeadClass::kSelf);
  EXPECT_EQ(class_of(mix(self, 0.4, sink)), HeadClass::kSink);
  EXPECT_EQ(class_of(mix(previous, 0.7, even)), HeadClass::kPrevious);
  EXPECT_EQ(class_of(mix(sink, 0.7, even)), HeadClass::kSink);
  EXPECT_EQ(class_of(mix(column, 0.4, even)), HeadClass::kVertical);
}

TEST(HeadClasses, CallAHeadMixedThatFitsNoKind) {
  const Cell far = [](int64_t i, int64_t j) { return j == i / 2; };
  EXPECT_EQ(class_of(mix(sink, 0.4, far)), HeadClass::kMixed);
  EXPECT_EQ(class_of(mix(self, 0.4, far)), HeadClass::kMixed);
}

TEST(HeadClasses, PutInductionBeforeTheSinkItRestsOn) {
  const std::vector<float> resting = draw_pattern(sink), working = draw_pattern(mix(induction, 0.5, sink));
  EXPECT_EQ(classify_head(numbers_of(resting, working), uniform_local_mass(kTokens)), HeadClass::kInduction);
  EXPECT_EQ(classify_head(numbers_of(resting, resting), uniform_local_mass(kTokens)), HeadClass::kSink);
}

TEST(HeadClasses, CallNothingLocalWhereAllIsNear) {
  const float pattern[] = {1, 0, 0, 0.5f, 0.5f, 0, 0.34f, 0.33f, 0.33f};
  EXPECT_EQ(classify_head(measure_pattern({pattern, 3}), uniform_local_mass(3)), HeadClass::kDiffuse);
}

TEST(HeadClasses, CallHeadsDiagonalDominantBySelfAndPreviousTogether) {
  const auto dominant = [](const Cell& cell, double mass = 1) {
    const std::vector<float> pattern = draw_pattern(cell, mass);
    return is_diagonal_dominant(measure_pattern({pattern.data(), kTokens}));
  };
  EXPECT_TRUE(dominant(mix(mix(self, 0.5, previous), 0.6, sink)));
  EXPECT_FALSE(dominant(mix(mix(self, 0.5, previous), 0.4, sink)));
  EXPECT_TRUE(dominant(self, 0.05));
  EXPECT_FALSE(dominant(self, 0.001)) << "a blank head dominates nothing";
}

TEST(HeadClasses, HaveOneRuleAndOneNameEach) {
  std::set<std::string> names;
  for (size_t n = 0; n < kClassCount; ++n) names.insert(class_name(static_cast<HeadClass>(n)));
  EXPECT_EQ(names.size(), kClassCount);
  EXPECT_FALSE(names.contains(""));
}

}  // namespace
}  // namespace openwork
