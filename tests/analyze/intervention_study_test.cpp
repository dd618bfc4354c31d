// What a study of interventions makes of knock-outs whose ranks are known.
#include "analyze/trace/intervention_study.h"

#include <gtest/gtest.h>

#include <cmath>

#include "analyze/trace/trace.h"
#include "analyze/trace_fixtures.h"
#include "base/interval_text.h"
#include "model/load.h"

namespace openwork {
namespace {

TraceIntervention change(double total, double measured) {
  return {.node = "L0F0@0",
          .factor = 0,
          .predicted = -total,
          .total = total,
          .frozen = -total,
          .measured = measured};
}

// Top features as predicted; random ones the other way round; heads, top ones in half of the prompts.
PromptKnockOuts make_prompt(bool heads_agree) {
  PromptKnockOuts prompt;
  for (int n = 1; n <= 4; ++n) {
    const double value = n;
    prompt.sets[0].push_back(change(-value, -value * value));
    prompt.sets[1].push_back(change(-value, value));
    prompt.sets[2].push_back(change(-value, heads_agree ? -value : value));
  }
  return prompt;
}

TEST(InterventionStudy, RankCorrelationsAndSizesAreThoseOfTheKnockOuts) {
  const InterventionStudy study = summarise_knock_outs("m", {make_prompt(true), make_prompt(false)}, 3);
  const KnockOutSummary &top = study.sets[0], &random = study.sets[1], &heads = study.sets[2],
                        &none = study.sets[3];
  EXPECT_EQ(top.count, 8);
  EXPECT_DOUBLE_EQ(top.rank(Forecast::kAllPaths).per_prompt.value, 1);
  EXPECT_DOUBLE_EQ(top.rank(Forecast::kAllPaths).per_prompt.interval.low, 1);
  EXPECT_DOUBLE_EQ(top.rank(Forecast::kAllPaths).pooled.value, 1);
  EXPECT_DOUBLE_EQ(top.direct, -1) << "direct effects were made to say the opposite";
  EXPECT_DOUBLE_EQ(top.same_sign, 1);
  EXPECT_DOUBLE_EQ(top.size.value, (1 + 4 + 9 + 16) / 4.0);
  EXPECT_DOUBLE_EQ(random.rank(Forecast::kAllPaths).pooled.value, -1);
  EXPECT_DOUBLE_EQ(random.same_sign, 0);
  EXPECT_DOUBLE_EQ(heads.rank(Forecast::kAllPaths).per_prompt.value, 0);
  EXPECT_DOUBLE_EQ(heads.rank(Forecast::kAllPaths).per_prompt.interval.low, -1)
      << "both draws may be the prompt that disagrees";
  EXPECT_DOUBLE_EQ(heads.rank(Forecast::kAllPaths).per_prompt.interval.high, 1);
  EXPECT_TRUE(std::isnan(none.rank(Forecast::kAllPaths).pooled.value));
}

TEST(InterventionStudy, EveryForecastIsHeldAgainstWhatItForetells) {
  PromptKnockOuts prompt = make_prompt(true);
  for (TraceIntervention& one : prompt.sets[0]) {
    one.following = {-one.total, 0, one.total, one.measured};
    one.patterns_held = -one.measured;
  }
  prompt.sets[0][0].by(Following::kNorms) = -1;  // the least of them first: neither one way nor the other
  const InterventionStudy study = summarise_knock_outs("m", {prompt, prompt}, 3);
  const auto rank = [&](Forecast forecast) { return study.sets[0].rank(forecast).pooled.value; };
  EXPECT_DOUBLE_EQ(rank(Forecast::kAllPaths), 1);
  EXPECT_DOUBLE_EQ(rank(Forecast::kFinalNorm), -1);
  EXPECT_LT(rank(Forecast::kNorms), 0);
  EXPECT_GT(rank(Forecast::kNorms), -1);
  EXPECT_DOUBLE_EQ(rank(Forecast::kFeatures), 1);
  EXPECT_DOUBLE_EQ(rank(Forecast::kPatterns), 1);
  EXPECT_DOUBLE_EQ(rank(Forecast::kPatternsHeld), 1)
      << "the final norm's forecast, patterns held in the model";
  const InterventionStudy plain = summarise_knock_outs("p", {make_prompt(true), make_prompt(true)}, 3);
  EXPECT_DOUBLE_EQ(compare_studies(study, plain, 3).rank(KnockOutSet::kTopFeatures).pooled.value, 0);
  const StudyDifference other = compare_studies(plain, study, 3);
  EXPECT_TRUE(std::isnan(other.rank(KnockOutSet::kTopFeatures, Forecast::kNorms).pooled.value))
      << "nothing was foretold in the other";
}

TEST(InterventionStudy, OnePromptWithARankHasNoInterval) {
  PromptKnockOuts few = make_prompt(true);
  few.sets[2].resize(2);  // too few for a rank
  const InterventionStudy study = summarise_knock_outs("m", {make_prompt(true), few}, 3);
  EXPECT_DOUBLE_EQ(study.sets[2].rank(Forecast::kAllPaths).per_prompt.value, 1);
  EXPECT_FALSE(exists(study.sets[2].rank(Forecast::kAllPaths).per_prompt.interval));
  EXPECT_TRUE(exists(study.sets[0].rank(Forecast::kAllPaths).per_prompt.interval));
  EXPECT_FALSE(exists(compare_studies(study, study, 3).rank(KnockOutSet::kTopHeads).per_prompt.interval));
}

TEST(InterventionStudy, DifferencesDrawTheSamePromptsForBoth) {
  const InterventionStudy mixed = summarise_knock_outs("a", {make_prompt(true), make_prompt(false)}, 3);
  const StudyDifference same = compare_studies(mixed, mixed, 3);
  EXPECT_DOUBLE_EQ(same.rank(KnockOutSet::kTopHeads).per_prompt.value, 0);
  EXPECT_DOUBLE_EQ(same.rank(KnockOutSet::kTopHeads).per_prompt.interval.low, 0)
      << "paired: no draw tells a study from itself";
  EXPECT_DOUBLE_EQ(same.rank(KnockOutSet::kTopHeads).per_prompt.interval.high, 0);
  const InterventionStudy good = summarise_knock_outs("b", {make_prompt(true), make_prompt(true)}, 3);
  EXPECT_DOUBLE_EQ(compare_studies(mixed, good, 3).rank(KnockOutSet::kTopHeads).per_prompt.value, 1);
}

TEST(InterventionStudy, KnocksOutTheGraphsTopAndAsManyOthers) {
  TracedModel traced = tiny_traced();
  const Tensor ids = made_up_ids(traced.model.config().vocabulary, 6);
  TracePrompt prompt;
  prompt.ids.assign(ids.const_data_ptr<int64_t>(), ids.const_data_ptr<int64_t>() + ids.numel());
  const PromptKnockOuts found =
      knock_out_top(traced, prompt, {.features = 5, .heads = 4, .seed = 1, .trace = {}});
  Tracer tracer(traced.model, &*traced.transcoders, ids, {});
  const TraceGraph& graph = tracer.find_graph();
  std::vector<std::string> strongest;
  for (const size_t n : strongest_nodes(graph, 1000)) {
    if (graph.nodes[n].kind == TraceNodeKind::kFeature) strongest.push_back(graph.nodes[n].name());
  }
  ASSERT_EQ(found.sets[0].size(), 5u);
  for (size_t n = 0; n < 5; ++n) EXPECT_EQ(found.sets[0][n].node, strongest[n]);
  ASSERT_EQ(found.sets[2].size(), 4u);
  EXPECT_EQ(found.sets[2][0].node, strongest_heads(graph)[0].name());
  for (const size_t pair : {0u, 2u}) {
    ASSERT_EQ(found.sets[pair + 1].size(), found.sets[pair].size());
    for (const TraceIntervention& other : found.sets[pair + 1]) {
      for (const TraceIntervention& top : found.sets[pair]) EXPECT_NE(other.node, top.node);
      const TraceIntervention again = tracer.intervene(other.node, 0);
      EXPECT_NEAR(other.measured, again.measured, 1e-4) << other.node;
    }
  }
}

}  // namespace
}  // namespace openwork
