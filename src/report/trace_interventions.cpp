#include "report/trace_interventions.h"

#include <cmath>

#include "io/interval_json.h"

namespace openwork {
namespace {

nlohmann::json value_or_null(double value) {
  return std::isnan(value) ? nlohmann::json() : nlohmann::json(value);
}

nlohmann::json estimate_json(const Estimate& estimate) {
  return {{"value", value_or_null(estimate.value)}, {"interval", interval_json(estimate.interval)}};
}

// All paths' own, and under their names those of the other forecasts.
nlohmann::json ranks_json(const ForecastRanks& ranks) {
  nlohmann::json json;
  for (const Forecast forecast : kForecasts) {
    const RankEstimate& rank = ranks[static_cast<size_t>(forecast)];
    nlohmann::json& into =
        forecast == Forecast::kAllPaths ? json : json["forecasts"][forecast_name(forecast)];
    into["rank_per_prompt"] = estimate_json(rank.per_prompt);
    into["rank_pooled"] = estimate_json(rank.pooled);
  }
  return json;
}

nlohmann::json summary_json(const KnockOutSummary& summary) {
  nlohmann::json json = ranks_json(summary.ranks);
  json["count"] = summary.count;
  json["rank_pooled_direct"] = value_or_null(summary.direct);
  json["same_sign"] = value_or_null(summary.same_sign);
  json["size"] = estimate_json(summary.size);
  return json;
}

nlohmann::json knock_outs_json(const PromptKnockOuts& prompt) {
  nlohmann::json json = {{"target", prompt.target}, {"probability", prompt.probability}};
  for (const KnockOutSet set : kKnockOutSets) {
    nlohmann::json& rows =
        json[set_name(set)] = {{"rank", value_or_null(compare_interventions(prompt.of(set)).rank)},
                               {"interventions", nlohmann::json::array()}};
    for (const TraceIntervention& change : prompt.of(set)) rows["interventions"].push_back(to_json(change));
  }
  return json;
}

}  // namespace

nlohmann::json to_json(const TraceIntervention& change) {
  nlohmann::json json = {{"node", change.node},
                         {"factor", change.factor},
                         {"predicted", change.predicted},
                         {"total", change.total},
                         {"frozen", change.frozen},
                         {"measured", change.measured},
                         {"patterns_held", change.patterns_held}};
  for (const Following step : kFollowings) json["following"][following_name(step)] = change.by(step);
  return json;
}

nlohmann::json to_json(const InterventionStudy& study) {
  nlohmann::json json = {
      {"name", study.name}, {"sets", nlohmann::json::object()}, {"prompts", nlohmann::json::array()}};
  for (const KnockOutSet set : kKnockOutSets)
    json["sets"][set_name(set)] = summary_json(study.sets[static_cast<size_t>(set)]);
  for (const PromptKnockOuts& prompt : study.prompts) json["prompts"].push_back(knock_outs_json(prompt));
  return json;
}

nlohmann::json to_json(const StudyDifference& difference) {
  nlohmann::json json = {
      {"dense", difference.dense}, {"sparse", difference.sparse}, {"sets", nlohmann::json::object()}};
  for (const KnockOutSet set : kKnockOutSets)
    json["sets"][set_name(set)] = ranks_json(difference.sets[static_cast<size_t>(set)]);
  return json;
}

}  // namespace openwork
