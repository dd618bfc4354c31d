#include "base/correlation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace openwork {
namespace {

template <typename Number>
double correlate(std::span<const Number> a, std::span<const Number> b) {
  const size_t count = std::min(a.size(), b.size());
  double mean_a = 0, mean_b = 0;
  for (size_t n = 0; n < count; ++n) mean_a += a[n], mean_b += b[n];
  mean_a /= static_cast<double>(count), mean_b /= static_cast<double>(count);
  double both = 0, square_a = 0, square_b = 0;
  for (size_t n = 0; n < count; ++n) {
    const double da = a[n] - mean_a, db = b[n] - mean_b;
    both += da * db, square_a += da * da, square_b += db * db;
  }
  if (!(square_a > 0) || !(square_b > 0)) return std::numeric_limits<double>::quiet_NaN();
  return std::clamp(both / std::sqrt(square_a * square_b), -1.0, 1.0);
}

}  // namespace

double pearson_correlation(std::span<const float> a, std::span<const float> b) {
  return correlate(a, b);
}

std::vector<double> rank_values(std::span<const float> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t from = 0; from < order.size();) {
    size_t to = from;
    while (to < order.size() && values[order[to]] == values[order[from]]) ++to;
    for (size_t n = from; n < to; ++n) ranks[order[n]] = static_cast<double>(from + 1 + to) / 2;
    from = to;
  }
  return ranks;
}

double spearman_correlation(std::span<const float> a, std::span<const float> b) {
  const std::vector<double> ranks_a = rank_values(a), ranks_b = rank_values(b);
  return correlate<double>(ranks_a, ranks_b);
}

}  // namespace openwork
