#include "analyze/circuits/circuit_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.h"
#include "base/philox.h"

namespace openwork {
namespace {

constexpr int64_t kThresholdDraws = 2000;

double sum_of(const PromptMetrics& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

Interval percentiles(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at_share = [&](double share) {
    return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
  };
  return {at_share(0.025), at_share(0.975)};
}

// The counts that are measured at first.
std::vector<int64_t> first_counts(int64_t total) {
  std::vector<int64_t> counts;
  for (int64_t count = 1; count < total;
       count = total <= kEveryCount ? count + 1 : std::max(count + 1, count + count / 4)) {
    counts.push_back(count);
  }
  return counts;
}

void check_range(const PromptMetrics& none, const PromptMetrics& all) {
  if (sum_of(all) > sum_of(none)) return;
  const double prompts = static_cast<double>(all.size());
  fail_input(fmt::format("the metric is {:.4f} with every part and {:.4f} with none", sum_of(all) / prompts,
                         sum_of(none) / prompts),
             "circuit",
             "the model does not do this task: use another task, more prompts or another ablation");
}

}  // namespace

double faithfulness_of(const PromptMetrics& metrics, const PromptMetrics& none, const PromptMetrics& all) {
  return (sum_of(metrics) - sum_of(none)) / (sum_of(all) - sum_of(none));
}

Interval faithfulness_interval(const PromptMetrics& metrics, const PromptMetrics& none,
                               const PromptMetrics& all, uint64_t seed) {
  std::vector<double> gained, range;
  for (size_t p = 0; p < metrics.size(); ++p)
    gained.push_back(metrics[p] - none[p]), range.push_back(all[p] - none[p]);
  return bootstrap_ratio(gained, range, seed, 1000);
}

CircuitCurve trace_curve(const KeepFirst& keep_first, int64_t total, const PromptMetrics& all,
                         double threshold, uint64_t seed) {
  CircuitCurve curve{.all = all, .none = keep_first({0}).front(), .points = {}, .threshold_interval = {}};
  check_range(curve.none, curve.all);
  std::map<int64_t, PromptMetrics> measured = {{0, curve.none}, {total, all}};
  const auto measure = [&](const std::vector<int64_t>& counts) {
    std::vector<PromptMetrics> metrics = keep_first(counts);
    for (size_t n = 0; n < counts.size(); ++n) measured[counts[n]] = std::move(metrics[n]);
  };
  const auto reaches = [&](const PromptMetrics& metrics) {
    return faithfulness_of(metrics, curve.none, all) >= threshold;
  };
  measure(first_counts(total));
  for (;;) {
    const auto border = std::find_if(measured.begin(), measured.end(),
                                     [&](const auto& entry) { return reaches(entry.second); });
    curve.at_threshold = border == measured.end() ? total : border->first;
    const int64_t before = border == measured.begin() || border == measured.end() ? curve.at_threshold
                                                                                  : std::prev(border)->first;
    if (curve.at_threshold - before <= 1) break;
    measure({before + (curve.at_threshold - before) / 2});
  }
  for (const auto& [count, metrics] : measured) {
    curve.points.push_back({count, faithfulness_of(metrics, curve.none, all),
                            faithfulness_interval(metrics, curve.none, all, seed), metrics});
  }
  std::vector<double> counts;
  for (const int64_t count : resample_threshold(curve, threshold, seed, kThresholdDraws))
    counts.push_back(static_cast<double>(count));
  curve.threshold_interval = percentiles(counts);
  return curve;
}

std::vector<int64_t> resample_threshold(const CircuitCurve& curve, double threshold, uint64_t seed,
                                        int64_t draws) {
  const size_t prompts = curve.all.size();
  std::vector<int64_t> counts;
  std::vector<double> times(prompts);
  const auto weighted = [&](const PromptMetrics& values) {
    return std::inner_product(values.begin(), values.end(), times.begin(), 0.0);
  };
  for (int64_t draw = 0; draw < draws; ++draw) {
    std::fill(times.begin(), times.end(), 0.0);
    for (size_t n = 0; n < prompts; ++n) {
      const uint32_t word = philox(seed, static_cast<uint64_t>(draw) * prompts + n).word[0];
      times[static_cast<size_t>((static_cast<uint64_t>(word) * prompts) >> 32)] += 1;
    }
    const double none = weighted(curve.none), wanted = none + threshold * (weighted(curve.all) - none);
    const auto reached = std::find_if(curve.points.begin(), curve.points.end(), [&](const CurvePoint& point) {
      return weighted(point.metrics) >= wanted;
    });
    counts.push_back(reached == curve.points.end() ? curve.points.back().count : reached->count);
  }
  return counts;
}

CircuitRatio compare_curves(const std::vector<CircuitCurve>& dense, const std::vector<CircuitCurve>& sparse,
                            double threshold, uint64_t seed) {
  const size_t seeds = dense.size();
  std::vector<std::vector<int64_t>> dense_counts, sparse_counts;
  double dense_sum = 0, sparse_sum = 0;
  for (size_t n = 0; n < seeds; ++n) {
    dense_counts.push_back(resample_threshold(dense[n], threshold, mix_seed(seed, n), kThresholdDraws));
    sparse_counts.push_back(resample_threshold(sparse[n], threshold, mix_seed(seed, n), kThresholdDraws));
    dense_sum += static_cast<double>(dense[n].at_threshold),
        sparse_sum += static_cast<double>(sparse[n].at_threshold);
  }
  // Each draw resamples the seeds, and the prompts within each.
  std::vector<double> ratios;
  for (size_t draw = 0; draw < static_cast<size_t>(kThresholdDraws); ++draw) {
    double above = 0, below = 0;
    for (size_t n = 0; n < seeds; ++n) {
      const uint32_t word = philox(mix_seed(seed, 977), draw * seeds + n).word[0];
      const auto pick = static_cast<size_t>((static_cast<uint64_t>(word) * seeds) >> 32);
      above += static_cast<double>(dense_counts[pick][draw]),
          below += static_cast<double>(sparse_counts[pick][draw]);
    }
    ratios.push_back(above / std::max(below, 1.0));
  }
  return {dense_sum / std::max(sparse_sum, 1.0), percentiles(ratios)};
}

}  // namespace openwork
