#include "report/trace_prompts_text.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "base/interval_text.h"
#include "base/number_text.h"
#include "report/times_fewer.h"

namespace openwork {
namespace {

std::string with_interval(const Estimate& estimate) {
  if (std::isnan(estimate.value)) return "-";
  return fmt::format("{:.3f} {}", estimate.value, interval_text(estimate.interval, 3));
}

}  // namespace

std::string format_prompts_header() {
  return fmt::format("{:<24} {:>5}", "model", "heads");
}

std::string format_prompt(const std::string& title, const PromptLine& line, const PromptHeads& heads) {
  return fmt::format("{:<24} {:>5}  key {:>2} -> query {:>2}  {:<10} {:>7.3f} %  {}", title, heads.needed,
                     heads.from, heads.to, printable(heads.target, 20), 100 * heads.probability,
                     printable(line.prompt, 60));
}

std::string format_mean(const HeadsByPrompt& model, double share) {
  return fmt::format("{}: {:.1f} heads carry {:.0f} % on average, 95 % {}, {}", model.name, model.mean,
                     100 * share, interval_text(model.interval, 1), count_of(model.prompts.size(), "prompt"));
}

std::string format_ratio(const HeadRatio& ratio) {
  const TimesFewer said = say_times_fewer(ratio.ratio, ratio.interval);
  return fmt::format("{} needs {:.2f} times {} heads {} {}, 95 % {}", ratio.sparse, said.times, said.fewer,
                     said.than, ratio.dense, interval_text(said.interval, 2));
}

std::string format_studies_header() {
  return fmt::format("{:<24} {:<16} {:>5}  {:<22} {:<22} {:>7} {:>9}  {}", "model", "knocked out", "",
                     "rank, per prompt", "rank, pooled", "direct", "same sign", "size of the change");
}

std::vector<std::string> format_study(const InterventionStudy& study) {
  std::vector<std::string> lines;
  for (const KnockOutSet set : kKnockOutSets) {
    const KnockOutSummary& summary = study.sets[static_cast<size_t>(set)];
    const RankEstimate& rank = summary.rank(Forecast::kAllPaths);
    lines.push_back(fmt::format("{:<24} {:<16} {:>5}  {:<22} {:<22} {:>7.3f} {:>7.0f} %  {}", study.name,
                                set_name(set), summary.count, with_interval(rank.per_prompt),
                                with_interval(rank.pooled), summary.direct, 100 * summary.same_sign,
                                with_interval(summary.size)));
  }
  return lines;
}

std::string format_forecasts_header() {
  return fmt::format("{:<24} {:<16} {:<22} {:>7} {:>8} {:>8}  {:<22}  {}", "rank, pooled, following",
                     "knocked out", "final norm", "norms", "features", "patterns", "patterns held",
                     "final norm, per prompt");
}

std::vector<std::string> format_forecasts(const InterventionStudy& study) {
  std::vector<std::string> lines;
  for (const KnockOutSet set : kKnockOutSets) {
    const KnockOutSummary& summary = study.sets[static_cast<size_t>(set)];
    const auto pooled = [&](Forecast forecast) { return summary.rank(forecast).pooled; };
    lines.push_back(fmt::format("{:<24} {:<16} {:<22} {:>7.3f} {:>8.3f} {:>8.3f}  {:<22}  {}", study.name,
                                set_name(set), with_interval(pooled(Forecast::kFinalNorm)),
                                pooled(Forecast::kNorms).value, pooled(Forecast::kFeatures).value,
                                pooled(Forecast::kPatterns).value,
                                with_interval(pooled(Forecast::kPatternsHeld)),
                                with_interval(summary.rank(Forecast::kFinalNorm).per_prompt)));
  }
  return lines;
}

std::vector<std::string> format_difference(const StudyDifference& difference) {
  std::vector<std::string> lines;
  for (const KnockOutSet set : kKnockOutSets) {
    const RankEstimate &paths = difference.rank(set), &normed = difference.rank(set, Forecast::kFinalNorm);
    lines.push_back(fmt::format("{} less {}, {}: {} per prompt, {} pooled; final norm following: {}, {}",
                                difference.sparse, difference.dense, set_name(set),
                                with_interval(paths.per_prompt), with_interval(paths.pooled),
                                with_interval(normed.per_prompt), with_interval(normed.pooled)));
  }
  return lines;
}

}  // namespace openwork
