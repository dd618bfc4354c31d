// What a run aims at: measurements at equal shares, the gap they leave, a control's curve, a frontier's
// targets; and the penalties of whole heads and the cutting of rows that training is made of.
#include "train/target.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>

#include "base/error.h"
#include "io/test_files.h"
#include "train/frontier.h"
#include "train/head_penalty.h"
#include "train/lengths.h"

namespace openwork {
namespace {

using testing::ElementsAre;

TEST(Measurements, ComeAtEqualSharesOfTheRunAndSurviveIt) {
  Measurements measurements(10);
  std::vector<int> due;
  for (int step = 0; step < 40; ++step) {
    if (measurements.is_due((step + 0.5) / 40)) due.push_back(step);
  }
  EXPECT_THAT(due, ElementsAre(4, 8, 12, 16, 20, 24, 28, 32, 36));
  EXPECT_DOUBLE_EQ(measurements.gap(), 0.15);
  measurements.take({3.0, 0.1}, std::nullopt, 100);
  EXPECT_DOUBLE_EQ(measurements.gap(), 0.15);
  measurements.take({3.0, 0.1}, 3.25, 200);
  EXPECT_DOUBLE_EQ(measurements.gap(), 0.25);
  Measurements again(10);
  again.restore(measurements.state());
  EXPECT_DOUBLE_EQ(again.gap(), 0.25);
  EXPECT_FALSE(again.is_due(0.95));
  EXPECT_EQ(again.take_line().at("held_out_tokens"), 200);
  EXPECT_TRUE(again.take_line().empty());
  EXPECT_FALSE(Measurements(0).is_due(0.9));
}

TEST(HeldOutTarget, FollowsTheControlWhileThatIsAbove) {
  const TestFolder folder;
  std::ofstream(folder / "metrics.jsonl")
      << R"({"step": 1, "tokens": 100, "held_out_loss": 3.0, "held_out_tokens": 100, "loss": 9})"
      << "\n"
      << R"({"step": 2, "tokens": 200, "loss": 9})"
      << "\n"
      << R"({"step": 5, "tokens": 500, "held_out_loss": 2.6, "held_out_tokens": 500, "loss": 9})"
      << "\n";
  const HeldOutTarget target{
      .wanted = 2.5, .control = HeldOutCurve(folder / "metrics.jsonl", 1000, 2.4), .margin = 0.05};
  EXPECT_DOUBLE_EQ(target.at(0), 3.05);
  EXPECT_NEAR(target.at(0.3), 2.85, 1e-12);
  EXPECT_NEAR(target.at(0.5), 2.65, 1e-12);
  EXPECT_DOUBLE_EQ(target.at(1), 2.5);
  EXPECT_DOUBLE_EQ(HeldOutTarget{.wanted = 2.5}.at(0), 2.5);
}

TEST(Frontier, TargetsGoEvenlyFromTheControlToTheBase) {
  const std::vector<double> targets = frontier_targets(2.66, 2.96, 4);
  ASSERT_EQ(targets.size(), 4u);
  EXPECT_NEAR(targets[0], 2.69, 1e-12);
  EXPECT_NEAR(targets[1], 2.78, 1e-12);
  EXPECT_NEAR(targets[3], 2.96, 1e-12);
  EXPECT_THAT(frontier_targets(2.66, 2.96, 1), ElementsAre(2.96));
  // A base that the control does not beat leaves no way between them.
  EXPECT_NEAR(frontier_targets(3.0, 3.01, 3).back(), 3.09, 1e-12);
}

TEST(HeadPenalty, ItsFormsAndSlopesBelongTogether) {
  const at::Tensor p = at::tensor({1e-5, 1e-3, 0.1, 0.9}, at::kDouble);
  for (const HeadForm form : {HeadForm::kSqrt, HeadForm::kLog}) {
    const double h = 1e-9;
    const at::Tensor slope = (head_cost(p + h, form) - head_cost(p - h, form)) / (2 * h);
    EXPECT_TRUE(at::allclose(head_slope(p, form), slope, 1e-4)) << head_form_name(form);
    const at::Tensor sharper = (head_cost(p + h, form, 1e-4) - head_cost(p - h, form, 1e-4)) / (2 * h);
    EXPECT_TRUE(at::allclose(head_slope(p, form, 1e-4), sharper, 1e-4)) << head_form_name(form);
    EXPECT_EQ(parse_head_form(head_form_name(form), "x"), form);
  }
  const at::Tensor ends = head_cost(at::tensor({0.0, 1.0}, at::kDouble), HeadForm::kLog);
  EXPECT_NEAR(ends[0].item<double>(), 0, 1e-12);
  EXPECT_NEAR(ends[1].item<double>(), 1, 1e-12);
  EXPECT_NEAR(head_cost(at::tensor({1e-3}, at::kDouble), HeadForm::kLog)[0].item<double>(),
              std::log(2) / std::log(1001), 1e-12);
  EXPECT_NEAR(head_cost(at::tensor({1e-3}, at::kDouble), HeadForm::kLog, 1e-5)[0].item<double>(),
              std::log(101) / std::log(100001), 1e-12);
  EXPECT_THROW(parse_head_form("cube", "--head-penalty-form"), Error);
}

TEST(LengthPlan, CutsEveryRowOnceAndCountsSamplesOverTheStep) {
  const LengthPlan plan({2, 4, 8}, 8);
  const at::Tensor rows = at::arange(7 * 9, at::kLong).view({7, 9});
  std::vector<int64_t> first_tokens[9];  // by length, in the order of samples
  for (const auto& [begin, count] : {std::pair<int64_t, int64_t>{0, 2}, {2, 4}, {6, 1}}) {
    for (const LengthCall& call : plan.calls(begin, count)) {
      const at::Tensor samples = plan.cut(rows.narrow(0, begin, count), call);
      EXPECT_EQ(samples.size(1), call.length + 1);
      EXPECT_EQ(call.first, static_cast<int64_t>(first_tokens[call.length].size()));
      for (int64_t n = 0; n < samples.size(0); ++n)
        first_tokens[call.length].push_back(samples[n][0].item<int64_t>());
    }
  }
  EXPECT_THAT(first_tokens[2], ElementsAre(0, 2, 4, 6, 27, 29, 31, 33, 54, 56, 58, 60));
  EXPECT_THAT(first_tokens[4], ElementsAre(9, 13, 36, 40));
  EXPECT_THAT(first_tokens[8], ElementsAre(18, 45));
  EXPECT_DOUBLE_EQ(plan.pairs(3), 4 * 3 + 2 * 10 + 36);
  EXPECT_FALSE(LengthPlan({}, 8).is_mixed());
  EXPECT_THROW(LengthPlan({3}, 8), Error);
  EXPECT_THROW(LengthPlan({4, 4}, 8), Error);
}

}  // namespace
}  // namespace openwork
