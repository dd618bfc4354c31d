// What faithfulness curves say about size, and how two models compare by it. Of a curve with points (k,
// f(k)), k from 0 to n parts:
//   counts     the smallest k with f(k) >= level
//   area       the integral of f over the share of parts kept, k/n from 0 to 1, by trapezoids between the
//   points: MIB's
//              integrated circuit performance ratio (CPR). f is taken as it is, above 1 and below 0 too
//   mean_size  the mean of the smallest k over all levels from 0 to 1. With g(k) the best f so far, at most
//   1, it is the sum
//              of (g(b) - g(a)) (a + 1 + b) / 2 over neighbouring points a < b: levels between them need a +
//              1 to b parts
// Shares are of a model's own candidates, which differ where gates are closed; counts and mean sizes compare
// across models. One crossing moves a lot where a curve is flat; the mean over all of them does not.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "analyze/circuits/circuit_curve.h"

namespace openwork {

struct CurveReading {
  std::vector<int64_t> counts;  // one per level asked for
  double area = 0, mean_size = 0;
};

// Of the curve as measured, and of `draws` resamplings of its prompts; the same seed draws the same prompts
// for every curve with as many of them.
CurveReading read_curve(const CircuitCurve& curve, const std::vector<double>& levels);
std::vector<CurveReading> resample_curve(const CircuitCurve& curve, const std::vector<double>& levels,
                                         uint64_t seed, int64_t draws);
inline constexpr int64_t kCurveDraws = 2000;

// The 2.5 % and 97.5 % points.
Interval percentiles(std::vector<double> values);

// How many times fewer parts `sparse` needs than `dense`.
struct CircuitRatio {
  double ratio = 0;
  Interval interval;
};

// One curve of each model per seed: ratios of the counts and mean sizes summed over seeds, the sparse area
// minus the dense one (mean over seeds), and 95 % intervals over prompts and seeds.
struct CurveComparison {
  CircuitRatio at_threshold;
  std::vector<CircuitRatio> at;  // one per level of kLevels
  CircuitRatio mean_size;
  double area_difference = 0;
  Interval area_interval;
};
CurveComparison compare_sizes(const std::vector<CircuitCurve>& dense, const std::vector<CircuitCurve>& sparse,
                              double threshold, uint64_t seed);

// At the threshold alone.
CircuitRatio compare_curves(const std::vector<CircuitCurve>& dense, const std::vector<CircuitCurve>& sparse,
                            double threshold, uint64_t seed);

// Counts that are known for each seed but not for each prompt: the interval is over seeds, absent where there
// is one.
struct SeedRatio {
  double ratio = 0;
  std::optional<Interval> interval;
};
SeedRatio compare_counts(const std::vector<double>& dense, const std::vector<double>& sparse, uint64_t seed);

}  // namespace openwork
