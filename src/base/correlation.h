// How alike two heads are over the same token pairs: Pearson's correlation of the values, Spearman's of their
// ranks (equal values share their mean rank). NaN where either is constant.
#pragma once
#include <span>
#include <vector>

namespace openwork {

double pearson_correlation(std::span<const float> a, std::span<const float> b);
double spearman_correlation(std::span<const float> a, std::span<const float> b);

// Ranks from 1; ties get their mean rank.
std::vector<double> rank_values(std::span<const float> values);

}  // namespace openwork
