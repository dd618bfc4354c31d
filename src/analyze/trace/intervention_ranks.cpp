// What knock-outs come to (intervention_study.h): every forecast's rank correlation with what happened, prompt by prompt and
// pooled, prompts resampled for the intervals.
#include <algorithm>
#include <cmath>
#include <functional>

#include "analyze/trace/intervention_study.h"
#include "base/bootstrap.h"
#include "base/correlation.h"
#include "base/interval_text.h"

namespace openwork {
namespace {

// The knock-outs of one set, of the prompts that were drawn (a prompt may be drawn twice).
std::vector<TraceIntervention> pool(const std::vector<PromptKnockOuts>& prompts,
                                    const std::vector<size_t>& drawn, KnockOutSet set) {
  std::vector<TraceIntervention> all;
  for (const size_t n : drawn) all.insert(all.end(), prompts[n].of(set).begin(), prompts[n].of(set).end());
  return all;
}

using Statistic = std::function<double(const std::vector<size_t>& drawn)>;  // of these prompts

// Every change as it was foretold and as it came.
struct Pairs {
  std::vector<float> foretold, came;

  double rank() const { return foretold.size() < 3 ? std::nan("") : spearman_correlation(foretold, came); }
};

Pairs pair_up(const std::vector<TraceIntervention>& changes, Forecast forecast) {
  Pairs pairs;
  for (const TraceIntervention& change : changes) {
    const bool held = forecast == Forecast::kPatternsHeld, all = forecast == Forecast::kAllPaths;
    const Following step =
        held || all ? Following::kFinalNorm : kFollowings[static_cast<size_t>(forecast) - 1];
    pairs.foretold.push_back(static_cast<float>(all ? change.total : change.by(step)));
    pairs.came.push_back(static_cast<float>(held ? change.patterns_held : change.measured));
  }
  return pairs;
}

// What is held against what, of one set: by prompt.
std::vector<Pairs> pair_prompts(const InterventionStudy& study, KnockOutSet set, Forecast forecast) {
  std::vector<Pairs> found;
  for (const PromptKnockOuts& prompt : study.prompts) found.push_back(pair_up(prompt.of(set), forecast));
  return found;
}

Statistic pooled_rank(std::vector<Pairs> prompts) {
  return [prompts = std::move(prompts)](const std::vector<size_t>& drawn) {
    Pairs all;
    for (const size_t n : drawn) {
      all.foretold.insert(all.foretold.end(), prompts[n].foretold.begin(), prompts[n].foretold.end());
      all.came.insert(all.came.end(), prompts[n].came.begin(), prompts[n].came.end());
    }
    return all.rank();
  };
}

std::vector<double> rank_prompts(const std::vector<Pairs>& prompts) {
  std::vector<double> ranks;
  for (const Pairs& pairs : prompts) ranks.push_back(pairs.rank());
  return ranks;
}

// Prompts of which nothing can be said (fewer than three knock-outs, all alike) are left out.
Statistic mean_rank(const std::vector<Pairs>& prompts) {
  return [ranks = rank_prompts(prompts)](const std::vector<size_t>& drawn) {
    double sum = 0;
    int64_t count = 0;
    for (const size_t n : drawn) {
      if (!std::isnan(ranks[n])) sum += ranks[n], ++count;
    }
    return count > 0 ? sum / static_cast<double>(count) : std::nan("");
  };
}

Statistic mean_size(const InterventionStudy& study, KnockOutSet set) {
  return [&study, set](const std::vector<size_t>& drawn) {
    const std::vector<TraceIntervention> all = pool(study.prompts, drawn, set);
    double sum = 0;
    for (const TraceIntervention& change : all) sum += std::abs(change.measured);
    return all.empty() ? std::nan("") : sum / static_cast<double>(all.size());
  };
}

Statistic difference_of(Statistic sparse, Statistic dense) {
  return [sparse, dense](const std::vector<size_t>& drawn) { return sparse(drawn) - dense(drawn); };
}

Estimate estimate(const Statistic& statistic, size_t prompts, uint64_t seed) {
  std::vector<size_t> all(prompts);
  for (size_t n = 0; n < prompts; ++n) all[n] = n;
  return {statistic(all), bootstrap_statistic(prompts, statistic, seed)};
}

// Of one prompt that has a rank, resampling says nothing.
bool has_interval(const std::vector<Pairs>& prompts) {
  const std::vector<double> ranks = rank_prompts(prompts);
  return std::count_if(ranks.begin(), ranks.end(), [](double rank) { return !std::isnan(rank); }) > 1;
}

RankEstimate estimate_rank(const std::vector<Pairs>& prompts, uint64_t seed) {
  RankEstimate found{estimate(mean_rank(prompts), prompts.size(), seed),
                     estimate(pooled_rank(prompts), prompts.size(), seed)};
  if (!has_interval(prompts)) found.per_prompt.interval = kNoInterval;
  return found;
}

// The same prompts drawn for both.
RankEstimate estimate_difference(const std::vector<Pairs>& dense, const std::vector<Pairs>& sparse,
                                 uint64_t seed) {
  const size_t prompts = std::min(dense.size(), sparse.size());
  RankEstimate found{estimate(difference_of(mean_rank(sparse), mean_rank(dense)), prompts, seed),
                     estimate(difference_of(pooled_rank(sparse), pooled_rank(dense)), prompts, seed)};
  if (!has_interval(dense) || !has_interval(sparse)) found.per_prompt.interval = kNoInterval;
  return found;
}

double share_of_same_sign(const std::vector<TraceIntervention>& all) {
  const auto same = std::count_if(all.begin(), all.end(), [](const TraceIntervention& change) {
    return (change.total < 0) == (change.measured < 0);
  });
  return all.empty() ? std::nan("") : static_cast<double>(same) / static_cast<double>(all.size());
}

}  // namespace

const char* forecast_name(Forecast forecast) {
  if (forecast == Forecast::kAllPaths) return "all_paths";
  if (forecast == Forecast::kPatternsHeld) return "patterns_held";
  return following_name(kFollowings[static_cast<size_t>(forecast) - 1]);
}

InterventionStudy summarise_knock_outs(const std::string& name, std::vector<PromptKnockOuts> prompts,
                                       uint64_t seed) {
  InterventionStudy study{name, std::move(prompts), {}};
  const size_t count = study.prompts.size();
  std::vector<size_t> every(count);
  for (size_t n = 0; n < count; ++n) every[n] = n;
  for (const KnockOutSet set : kKnockOutSets) {
    const std::vector<TraceIntervention> all = pool(study.prompts, every, set);
    KnockOutSummary& summary = study.sets[static_cast<size_t>(set)];
    summary = {.count = static_cast<int64_t>(all.size()),
               .ranks = {},
               .direct = compare_interventions(all).direct_rank,
               .same_sign = share_of_same_sign(all),
               .size = estimate(mean_size(study, set), count, seed)};
    for (const Forecast forecast : kForecasts)
      summary.ranks[static_cast<size_t>(forecast)] = estimate_rank(pair_prompts(study, set, forecast), seed);
  }
  return study;
}

StudyDifference compare_studies(const InterventionStudy& dense, const InterventionStudy& sparse,
                                uint64_t seed) {
  StudyDifference found{dense.name, sparse.name, {}};
  for (const KnockOutSet set : kKnockOutSets) {
    for (const Forecast forecast : kForecasts) {
      found.sets[static_cast<size_t>(set)][static_cast<size_t>(forecast)] =
          estimate_difference(pair_prompts(dense, set, forecast), pair_prompts(sparse, set, forecast), seed);
    }
  }
  return found;
}

}  // namespace openwork
