// What the ranks of a job measure between them (train/ranks.h), brought together: afterwards every rank has
// the same numbers, and goes the same way from there on. Without ranks (null, or one alone) nothing happens.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "analyze/circuits/circuit_curve.h"
#include "train/ranks.h"

namespace openwork {

inline size_t rank_count(const Ranks* ranks) {
  return ranks ? static_cast<size_t>(ranks->count()) : 1;
}
// Whether this rank does piece `n` of a list of work.
inline bool is_own(const Ranks* ranks, size_t n) {
  return n % rank_count(ranks) == (ranks ? static_cast<size_t>(ranks->rank()) : 0);
}

// Every row was measured by one rank, and is empty on the others.
void share_rows(Ranks* ranks, std::vector<PromptMetrics>& rows, int64_t prompts);

// The first rank's.
void share_first(Ranks* ranks, std::vector<double>& numbers);
void share_first(Ranks* ranks, std::string& text);

// The largest.
int share_largest(Ranks* ranks, int number);

}  // namespace openwork
