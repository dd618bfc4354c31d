#include "analyze/heads/redundancy.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace openwork {

std::vector<int64_t> choose_rows(int64_t tokens, int64_t cells) {
  const int64_t pairs = tokens * (tokens + 1) / 2 - 1;
  const int64_t step = std::max<int64_t>(1, (pairs + cells - 1) / cells);
  std::vector<int64_t> rows;
  for (int64_t i = tokens - 1; i >= 1; i -= step) rows.push_back(i);
  return rows;
}

PatternCorrelation::PatternCorrelation(int64_t heads)
    : heads_(heads),
      sums_(at::zeros({heads}, at::kDouble)),
      products_(at::zeros({heads, heads}, at::kDouble)) {}

void PatternCorrelation::begin_prompt(int64_t tokens) {
  tokens_ = tokens;
  rows_ = choose_rows(tokens);
  int64_t cells = 0;
  for (const int64_t i : rows_) cells += i + 1;
  cells_ = at::zeros({heads_, cells}, at::kFloat);
}

void PatternCorrelation::add_head(int64_t head, const float* pattern) {
  float* out = cells_.data_ptr<float>() + head * cells_.size(1);
  for (const int64_t i : rows_) out = std::copy_n(pattern + i * tokens_, i + 1, out);
}

void PatternCorrelation::end_prompt() {
  count_ += static_cast<double>(cells_.size(1));
  sums_ += cells_.sum(1, false, at::kDouble);
  products_ += at::matmul(cells_, cells_.t()).to(at::kDouble);
  cells_.reset();
}

std::vector<double> PatternCorrelation::correlations() const {
  std::vector<double> result(static_cast<size_t>(heads_ * heads_), 0.0);
  if (count_ == 0) return result;
  const double* sums = sums_.data_ptr<double>();
  const double* products = products_.data_ptr<double>();
  const auto covariance = [&](int64_t a, int64_t b) {
    return products[a * heads_ + b] / count_ - sums[a] * sums[b] / (count_ * count_);
  };
  for (int64_t a = 0; a < heads_; ++a) {
    for (int64_t b = 0; b < heads_; ++b) {
      const double spread = covariance(a, a) * covariance(b, b);
      if (covariance(a, a) < 1e-12 || covariance(b, b) < 1e-12) continue;
      result[static_cast<size_t>(a * heads_ + b)] = covariance(a, b) / std::sqrt(spread);
    }
  }
  return result;
}

namespace {

struct Pair {
  double correlation;
  size_t a, b;
};

std::vector<Pair> alike_pairs(const std::vector<double>& correlations, const std::vector<bool>& blank,
                              double level) {
  const size_t heads = blank.size();
  std::vector<Pair> pairs;
  for (size_t a = 0; a < heads; ++a) {
    for (size_t b = a + 1; b < heads; ++b) {
      if (!blank[a] && !blank[b] && correlations[a * heads + b] >= level)
        pairs.push_back({correlations[a * heads + b], a, b});
    }
  }
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const Pair& x, const Pair& y) { return x.correlation > y.correlation; });
  return pairs;
}

}  // namespace

Redundancy group_heads(const std::vector<double>& correlations, const std::vector<bool>& blank,
                       double level) {
  const size_t heads = blank.size();
  std::vector<size_t> group_of(heads);
  std::vector<RedundancyGroup> groups(heads);
  for (size_t head = 0; head < heads; ++head) {
    group_of[head] = head;
    if (!blank[head]) groups[head].heads = {static_cast<int64_t>(head)};
  }
  for (const Pair& pair : alike_pairs(correlations, blank, level)) {
    const size_t into = std::min(group_of[pair.a], group_of[pair.b]),
                 from = std::max(group_of[pair.a], group_of[pair.b]);
    if (into == from) continue;
    double lowest = std::min(groups[into].lowest_correlation, groups[from].lowest_correlation);
    for (const int64_t a : groups[into].heads) {
      for (const int64_t b : groups[from].heads)
        lowest = std::min(lowest, correlations[static_cast<size_t>(a) * heads + static_cast<size_t>(b)]);
    }
    if (lowest < level) continue;
    for (const int64_t head : groups[from].heads) group_of[static_cast<size_t>(head)] = into;
    groups[into].heads.insert(groups[into].heads.end(), groups[from].heads.begin(), groups[from].heads.end());
    groups[into].lowest_correlation = lowest;
    groups[from].heads.clear();
  }
  Redundancy result;
  result.level = level;
  result.blank = std::count(blank.begin(), blank.end(), true);
  for (RedundancyGroup& group : groups) {
    result.distinct += !group.heads.empty();
    std::sort(group.heads.begin(), group.heads.end());
    if (group.heads.size() > 1) result.groups.push_back(std::move(group));
  }
  std::stable_sort(result.groups.begin(), result.groups.end(),
                   [](const auto& a, const auto& b) { return a.heads.size() > b.heads.size(); });
  return result;
}

}  // namespace openwork
