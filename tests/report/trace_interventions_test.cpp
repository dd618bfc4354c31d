// A study of interventions as JSON: an interval that is not there is null, as in every other result.
#include "report/trace_interventions.h"

#include <gtest/gtest.h>

namespace openwork {
namespace {

PromptKnockOuts make_prompt() {
  PromptKnockOuts prompt;
  for (const double value : {1.0, 2.0, 3.0, 4.0})
    prompt.sets[0].push_back({.node = "L0F0@0", .total = -value, .measured = -value * value});
  return prompt;  // nothing of the other sets
}

// Every "interval" in the JSON, wherever it stands.
std::vector<nlohmann::json> list_intervals(const nlohmann::json& json) {
  std::vector<nlohmann::json> found;
  for (const auto& [key, value] : json.items()) {
    if (json.is_object() && key == "interval") {
      found.push_back(value);
    } else if (value.is_structured()) {
      const std::vector<nlohmann::json> inner = list_intervals(value);
      found.insert(found.end(), inner.begin(), inner.end());
    }
  }
  return found;
}

TEST(InterventionJson, IntervalsOfOnePromptAreNull) {
  const InterventionStudy study = summarise_knock_outs("m", {make_prompt()}, 3);
  const nlohmann::json json = to_json(study), difference = to_json(compare_studies(study, study, 3));
  EXPECT_EQ(json["sets"]["top_features"]["rank_pooled"]["value"], 1);
  ASSERT_EQ(list_intervals(json).size(), 52u);
  for (const nlohmann::json& interval : list_intervals(json)) EXPECT_TRUE(interval.is_null()) << interval;
  ASSERT_EQ(list_intervals(difference).size(), 48u);
  for (const nlohmann::json& interval : list_intervals(difference))
    EXPECT_TRUE(interval.is_null()) << interval;
}

TEST(InterventionJson, IntervalsOfWhatWasNotKnockedOutAreNullAndOthersAPair) {
  const nlohmann::json sets = to_json(summarise_knock_outs("m", {make_prompt(), make_prompt()}, 3))["sets"];
  EXPECT_EQ(sets["top_features"]["rank_pooled"]["interval"], nlohmann::json({1, 1}));
  EXPECT_TRUE(sets["random_heads"]["rank_pooled"]["interval"].is_null());
  EXPECT_TRUE(sets["random_heads"]["rank_pooled"]["value"].is_null());
}

TEST(InterventionJson, EveryForecastHasItsName) {
  PromptKnockOuts prompt = make_prompt();
  for (TraceIntervention& one : prompt.sets[0])
    one.following = {one.total, one.total, one.total, -one.total}, one.patterns_held = -one.total;
  const nlohmann::json json = to_json(summarise_knock_outs("m", {prompt, prompt}, 3));
  const nlohmann::json& forecasts = json["sets"]["top_features"]["forecasts"];
  ASSERT_EQ(forecasts.size(), 5u);
  for (const char* name : {"final_norm", "norms", "features"})
    EXPECT_EQ(forecasts[name]["rank_pooled"]["value"], 1) << name;
  for (const char* name : {"patterns", "patterns_held"})
    EXPECT_EQ(forecasts[name]["rank_per_prompt"]["value"], -1) << name;
  const nlohmann::json& change = json["prompts"][0]["top_features"]["interventions"][1];
  EXPECT_EQ(change["following"]["final_norm"], -2);
  EXPECT_EQ(change["following"]["patterns"], 2);
  EXPECT_EQ(change["patterns_held"], 2);
}

}  // namespace
}  // namespace openwork
