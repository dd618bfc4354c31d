#include "analyze/circuits/circuit_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "analyze/circuits/curve_sizes.h"
#include "base/error.h"
#include "base/interval_text.h"

namespace openwork {
namespace {

double sum_of(const PromptMetrics& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
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

}  // namespace

void check_range(const PromptMetrics& none, const PromptMetrics& all, std::string_view scope) {
  constexpr double kRounding = 1e-5;  // of float32 runs in another order, as a share of what they add up to
  const double range = sum_of(all) - sum_of(none);
  if (range > kRounding * (std::abs(sum_of(all)) + std::abs(sum_of(none)))) return;
  const double prompts = static_cast<double>(all.size());
  fail_input(fmt::format("{}the metric is {:.4f} with every part and {:.4f} with none", scope,
                         sum_of(all) / prompts, sum_of(none) / prompts),
             "circuit",
             "the model does not do this task: use another task, more prompts or another ablation");
}

double faithfulness_of(const PromptMetrics& metrics, const PromptMetrics& none, const PromptMetrics& all) {
  return (sum_of(metrics) - sum_of(none)) / (sum_of(all) - sum_of(none));
}

Interval faithfulness_interval(const PromptMetrics& metrics, const PromptMetrics& none,
                               const PromptMetrics& all, uint64_t seed) {
  std::vector<double> gained, range;
  for (size_t p = 0; p < metrics.size(); ++p)
    gained.push_back(metrics[p] - none[p]), range.push_back(all[p] - none[p]);
  return bootstrap_ratio(gained, range, seed);
}

namespace {

// Where a curve first reaches a level: the point there, and the one before it.
struct Border {
  int64_t before = 0, at = 0;
};

Border find_border(const CircuitCurve& curve, double level) {
  const auto at = std::find_if(curve.points.begin(), curve.points.end(),
                               [&](const CurvePoint& point) { return point.faithfulness >= level; });
  if (at == curve.points.end()) return {curve.points.back().count, curve.points.back().count};
  return {at == curve.points.begin() ? at->count : std::prev(at)->count, at->count};
}

void add_points(CircuitCurve& curve, const KeepFirst& keep_first, const std::vector<int64_t>& counts) {
  std::vector<PromptMetrics> metrics = keep_first(counts);
  for (size_t n = 0; n < counts.size(); ++n) {
    const double faithfulness = faithfulness_of(metrics[n], curve.none, curve.all);
    curve.points.push_back({counts[n], faithfulness, {}, std::move(metrics[n])});
  }
  std::sort(curve.points.begin(), curve.points.end(),
            [](const CurvePoint& a, const CurvePoint& b) { return a.count < b.count; });
}

// Halves what is open between a border's two points until they are neighbours, all borders in one round.
void close_borders(CircuitCurve& curve, const KeepFirst& keep_first, const std::vector<double>& levels) {
  for (;;) {
    std::set<int64_t> middles;
    for (const double level : levels) {
      const Border border = find_border(curve, level);
      if (border.at - border.before > 1) middles.insert(border.before + (border.at - border.before) / 2);
    }
    if (middles.empty()) return;
    add_points(curve, keep_first, {middles.begin(), middles.end()});
  }
}

}  // namespace

CircuitCurve measure_curve(const KeepFirst& keep_first, int64_t total, const PromptMetrics& all,
                           double threshold) {
  CircuitCurve curve;
  curve.all = all;
  curve.none = keep_first({0}).front();
  check_range(curve.none, curve.all);
  curve.points = {{0, 0, {}, curve.none}, {total, 1, {}, all}};
  add_points(curve, keep_first, first_counts(total));
  close_borders(curve, keep_first, {threshold});
  curve.at_threshold = find_border(curve, threshold).at;
  return curve;
}

void finish_curve(CircuitCurve& curve, const KeepFirst& keep_first, double threshold, uint64_t seed) {
  std::vector<double> levels = {threshold};
  levels.insert(levels.end(), kLevels.begin(), kLevels.end());
  close_borders(curve, keep_first, levels);
  for (CurvePoint& point : curve.points)
    point.interval = faithfulness_interval(point.metrics, curve.none, curve.all, seed);
  const CurveReading measured = read_curve(curve, levels);
  const std::vector<CurveReading> draws = resample_curve(curve, levels, seed, kCurveDraws);
  const auto interval_of = [&](const auto& quantity) {
    std::vector<double> values;
    for (const CurveReading& draw : draws) values.push_back(static_cast<double>(quantity(draw)));
    return curve.all.size() < 2 ? kNoInterval : percentiles(std::move(values));
  };
  const auto interval_at = [&](size_t n) {
    return interval_of([n](const CurveReading& draw) { return draw.counts[n]; });
  };
  curve.at_threshold = measured.counts[0];
  curve.threshold_interval = interval_at(0);
  curve.at.clear();
  for (size_t n = 0; n < kLevels.size(); ++n)
    curve.at.push_back({kLevels[n], measured.counts[n + 1], interval_at(n + 1)});
  curve.area = measured.area, curve.mean_size = measured.mean_size;
  curve.area_interval = interval_of([](const CurveReading& draw) { return draw.area; });
  curve.mean_size_interval = interval_of([](const CurveReading& draw) { return draw.mean_size; });
}

CircuitCurve trace_curve(const KeepFirst& keep_first, int64_t total, const PromptMetrics& all,
                         double threshold, uint64_t seed) {
  CircuitCurve curve = measure_curve(keep_first, total, all, threshold);
  finish_curve(curve, keep_first, threshold, seed);
  return curve;
}

}  // namespace openwork
