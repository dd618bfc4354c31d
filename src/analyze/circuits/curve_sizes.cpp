#include "analyze/circuits/curve_sizes.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/interval_text.h"
#include "base/philox.h"

namespace openwork {
namespace {

// What the faithfulnesses f at a curve's points say.
CurveReading read_values(const CircuitCurve& curve, const std::vector<double>& f,
                         const std::vector<double>& levels) {
  CurveReading reading;
  for (const double level : levels) {
    const auto reached = std::find_if(f.begin(), f.end(), [&](double value) { return value >= level; });
    reading.counts.push_back(reached == f.end()
                                 ? curve.points.back().count
                                 : curve.points[static_cast<size_t>(reached - f.begin())].count);
  }
  const auto total = static_cast<double>(curve.points.back().count);
  double best = 0;  // g: f(0) is 0
  for (size_t n = 1; n < f.size(); ++n) {
    const auto a = static_cast<double>(curve.points[n - 1].count),
               b = static_cast<double>(curve.points[n].count);
    reading.area += (b - a) / total * (f[n - 1] + f[n]) / 2;
    const double higher = std::max(best, std::min(1.0, f[n]));
    reading.mean_size += (higher - best) * (a + 1 + b) / 2;
    best = higher;
  }
  return reading;
}

// How often each of `count` things is drawn in one resampling of them.
void draw_times(uint64_t seed, int64_t draw, std::vector<double>& times) {
  const size_t count = times.size();
  std::fill(times.begin(), times.end(), 0.0);
  for (size_t n = 0; n < count; ++n) {
    const uint32_t word = philox(seed, static_cast<uint64_t>(draw) * count + n).word[0];
    times[static_cast<size_t>((static_cast<uint64_t>(word) * count) >> 32)] += 1;
  }
}

CurveReading read_weighted(const CircuitCurve& curve, const std::vector<double>& levels,
                           const std::vector<double>& times) {
  const auto weighted = [&](const PromptMetrics& values) {
    return std::inner_product(values.begin(), values.end(), times.begin(), 0.0);
  };
  const double none = weighted(curve.none), range = weighted(curve.all) - none;
  // A draw in which ablating everything does not hurt reaches nothing before its last part.
  std::vector<double> f;
  for (const CurvePoint& point : curve.points)
    f.push_back(range > 0 ? (weighted(point.metrics) - none) / range : 0);
  f.back() = 1;
  return read_values(curve, f, levels);
}

// Both models' readings by seed, and how to draw from them: each draw resamples the seeds, and the prompts
// within each.
class PairedReadings {
 public:
  PairedReadings(const std::vector<CircuitCurve>& dense, const std::vector<CircuitCurve>& sparse,
                 const std::vector<double>& levels, uint64_t seed)
      : seed_(seed), one_prompt_(!dense.empty() && dense.front().all.size() < 2) {
    for (size_t n = 0; n < dense.size(); ++n) {
      dense_.push_back(resample_curve(dense[n], levels, mix_seed(seed, n), kCurveDraws));
      sparse_.push_back(resample_curve(sparse[n], levels, mix_seed(seed, n), kCurveDraws));
      measured_.emplace_back(read_curve(dense[n], levels), read_curve(sparse[n], levels));
    }
  }

  using Quantity = std::function<double(const CurveReading&)>;

  CircuitRatio ratio(const Quantity& quantity) const {
    double above = 0, below = 0;
    for (const auto& [dense, sparse] : measured_) above += quantity(dense), below += quantity(sparse);
    const Interval interval =
        resample(quantity, [](double dense, double sparse) { return dense / std::max(sparse, 1.0); });
    return {above / std::max(below, 1.0), interval};
  }

  Interval resample(const Quantity& quantity, const std::function<double(double, double)>& join) const {
    const size_t seeds = dense_.size();
    if (seeds == 1 && one_prompt_) return kNoInterval;
    std::vector<double> values;
    for (size_t draw = 0; draw < static_cast<size_t>(kCurveDraws); ++draw) {
      double dense = 0, sparse = 0;
      for (size_t n = 0; n < seeds; ++n) {
        const uint32_t word = philox(mix_seed(seed_, 977), draw * seeds + n).word[0];
        const auto pick = static_cast<size_t>((static_cast<uint64_t>(word) * seeds) >> 32);
        dense += quantity(dense_[pick][draw]), sparse += quantity(sparse_[pick][draw]);
      }
      values.push_back(join(dense, sparse));
    }
    return percentiles(std::move(values));
  }

 private:
  uint64_t seed_;
  bool one_prompt_;
  std::vector<std::vector<CurveReading>> dense_, sparse_;        // [seed][draw]
  std::vector<std::pair<CurveReading, CurveReading>> measured_;  // [seed]
};

std::vector<double> levels_with(double threshold) {
  std::vector<double> levels = {threshold};
  levels.insert(levels.end(), kLevels.begin(), kLevels.end());
  return levels;
}

}  // namespace

Interval percentiles(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at_share = [&](double share) {
    return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
  };
  return {at_share(0.025), at_share(0.975)};
}

CurveReading read_curve(const CircuitCurve& curve, const std::vector<double>& levels) {
  std::vector<double> f;
  for (const CurvePoint& point : curve.points) f.push_back(point.faithfulness);
  return read_values(curve, f, levels);
}

std::vector<CurveReading> resample_curve(const CircuitCurve& curve, const std::vector<double>& levels,
                                         uint64_t seed, int64_t draws) {
  std::vector<CurveReading> readings;
  std::vector<double> times(curve.all.size());
  for (int64_t draw = 0; draw < draws; ++draw) {
    draw_times(seed, draw, times);
    readings.push_back(read_weighted(curve, levels, times));
  }
  return readings;
}

CurveComparison compare_sizes(const std::vector<CircuitCurve>& dense, const std::vector<CircuitCurve>& sparse,
                              double threshold, uint64_t seed) {
  const PairedReadings pair(dense, sparse, levels_with(threshold), seed);
  const auto count_at = [](size_t n) {
    return [n](const CurveReading& reading) { return static_cast<double>(reading.counts[n]); };
  };
  CurveComparison comparison;
  comparison.at_threshold = pair.ratio(count_at(0));
  for (size_t n = 0; n < kLevels.size(); ++n) comparison.at.push_back(pair.ratio(count_at(n + 1)));
  comparison.mean_size = pair.ratio([](const CurveReading& reading) { return reading.mean_size; });
  const auto seeds = static_cast<double>(dense.size());
  for (size_t n = 0; n < dense.size(); ++n)
    comparison.area_difference += (sparse[n].area - dense[n].area) / seeds;
  comparison.area_interval = pair.resample([](const CurveReading& reading) { return reading.area; },
                                           [&](double d, double s) { return (s - d) / seeds; });
  return comparison;
}

CircuitRatio compare_curves(const std::vector<CircuitCurve>& dense, const std::vector<CircuitCurve>& sparse,
                            double threshold, uint64_t seed) {
  return compare_sizes(dense, sparse, threshold, seed).at_threshold;
}

SeedRatio compare_counts(const std::vector<double>& dense, const std::vector<double>& sparse, uint64_t seed) {
  const auto ratio = [](double above, double below) { return above / std::max(below, 1.0); };
  SeedRatio result{ratio(std::accumulate(dense.begin(), dense.end(), 0.0),
                         std::accumulate(sparse.begin(), sparse.end(), 0.0)),
                   std::nullopt};
  if (dense.size() < 2) return result;
  std::vector<double> values, times(dense.size());
  for (int64_t draw = 0; draw < kCurveDraws; ++draw) {
    draw_times(mix_seed(seed, 977), draw, times);
    values.push_back(ratio(std::inner_product(dense.begin(), dense.end(), times.begin(), 0.0),
                           std::inner_product(sparse.begin(), sparse.end(), times.begin(), 0.0)));
  }
  result.interval = percentiles(std::move(values));
  return result;
}

}  // namespace openwork
