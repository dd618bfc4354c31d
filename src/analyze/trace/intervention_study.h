// Does a graph say what matters to the model itself? Of each prompt's graph the top features and top heads are knocked
// out in the real model, everything free to follow, and the change of the answer's logit is compared with what the
// graph's paths predict: Spearman's rank correlation, per prompt and over all prompts pooled, with intervals (prompts
// resampled). As many features and heads drawn at random from the rest are the control. Beside the plain sum of paths stand
// predictions in which more and more of what a graph holds follows (Following): what each of them costs.
//   PromptKnockOuts one = knock_out_top(traced, prompt, settings);
//   InterventionStudy study = summarise_knock_outs(traced.name, {one, ...}, seed);
#pragma once
#include <array>
#include <string>
#include <vector>

#include "analyze/trace/model_trace.h"
#include "base/interval.h"

namespace openwork {

// Features are MLPs where there are no transcoders.
enum class KnockOutSet { kTopFeatures, kRandomFeatures, kTopHeads, kRandomHeads };
inline constexpr std::array<KnockOutSet, 4> kKnockOutSets = {
    KnockOutSet::kTopFeatures, KnockOutSet::kRandomFeatures, KnockOutSet::kTopHeads,
    KnockOutSet::kRandomHeads};
const char* set_name(KnockOutSet set);  // "top_features", "random_features", "top_heads", "random_heads"

struct KnockOutSettings {
  int64_t features = 20, heads = 10;  // of each prompt's graph; as many at random
  uint64_t seed = 0;                  // draws the random ones
  PromptTraceSettings trace;
};

struct PromptKnockOuts {
  std::string target;  // the answer's text
  double probability = 0;
  std::array<std::vector<TraceIntervention>, 4> sets;  // in the order of kKnockOutSets

  const std::vector<TraceIntervention>& of(KnockOutSet set) const { return sets[static_cast<size_t>(set)]; }
};
// Top features are those of most influence in the graph, top heads those that carry most of what reaches the answer.
PromptKnockOuts knock_out_top(const TracedModel& traced, const TracePrompt& prompt,
                              const KnockOutSettings& settings,
                              const std::function<void(int64_t, int64_t)>& advance = nullptr);

// The graph's heads by what they carry of what reaches the answer, the most first.
std::vector<HeadPlace> strongest_heads(const TraceGraph& graph);

struct Estimate {
  double value = 0;  // NaN where nothing can be said
  Interval interval;
};

// Spearman's rank correlations of what is foretold with what is measured.
struct RankEstimate {
  Estimate per_prompt;  // mean over prompts
  Estimate pooled;      // over all knock-outs of all prompts
};

// What is held against what.
enum class Forecast {
  kAllPaths,   // the sum of all paths, everything held, against the model
  kFinalNorm,  // the same with the final norm following, against the model
  kNorms,      // and so on up to the replaced model, as Following has it
  kFeatures,   //
  kPatterns,   //
  kPatternsHeld,  // final norm following, against the model with attention's patterns held (circuit-tracer's own practice)
};
inline constexpr std::array<Forecast, 6> kForecasts = {Forecast::kAllPaths, Forecast::kFinalNorm,
                                                       Forecast::kNorms,    Forecast::kFeatures,
                                                       Forecast::kPatterns, Forecast::kPatternsHeld};
const char* forecast_name(Forecast forecast);  // "all_paths", those of Following, "patterns_held"
using ForecastRanks = std::array<RankEstimate, kForecasts.size()>;  // in the order of kForecasts

struct KnockOutSummary {
  int64_t count = 0;  // knock-outs, of all prompts
  ForecastRanks ranks;
  double direct = 0;     // the pooled one of direct effects alone, against the model
  double same_sign = 0;  // share that moved the logit the way all paths predict
  Estimate size;         // mean absolute change of the logit

  const RankEstimate& rank(Forecast forecast) const { return ranks[static_cast<size_t>(forecast)]; }
};

struct InterventionStudy {
  std::string name;  // of the model
  std::vector<PromptKnockOuts> prompts;
  std::array<KnockOutSummary, 4> sets;
};
InterventionStudy summarise_knock_outs(const std::string& name, std::vector<PromptKnockOuts> prompts,
                                       uint64_t seed);

// All of it for one model, with a bar; every prompt draws other random ones.
InterventionStudy study_prompts(const TracedModel& traced, const std::vector<TracePrompt>& prompts,
                                const KnockOutSettings& settings);

// What the second has more than the first, the same prompts drawn for both.
struct StudyDifference {
  std::string dense, sparse;
  std::array<ForecastRanks, 4> sets;

  const RankEstimate& rank(KnockOutSet set, Forecast forecast = Forecast::kAllPaths) const {
    return sets[static_cast<size_t>(set)][static_cast<size_t>(forecast)];
  }
};
StudyDifference compare_studies(const InterventionStudy& dense, const InterventionStudy& sparse,
                                uint64_t seed);

}  // namespace openwork
