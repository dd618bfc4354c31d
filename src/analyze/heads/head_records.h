// What is known about a model's heads after looking at prompts (docs/method.md, 3): plain numbers, no torch.
// A HeadNumbers holds one value per Statistic; kStatistics names each of them once, and that name is the one
// in JSON, CSV, tables and figures. A number that does not exist (the entropy of a head without a row) is NaN.
#pragma once
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/head_place.h"

namespace openwork {

// Of a causal pattern A (dense: P; gated: P times z), over rows i >= 1, one prompt or their mean.
enum class Statistic {
  kMass,
  kSelf,
  kPrevious,
  kSink,
  kColumn,
  kSpreadRow,
  kLocal,
  kEntropy,
  kPeak,
  kStrong,
  kKept,
  kDensity,
  kValueMass,
  kInduction,
  kDuplicate,
  kRepeatMass,
  kRowMass,
  kRowShare,
  kCount
};
inline constexpr size_t kStatisticCount = static_cast<size_t>(Statistic::kCount);

struct StatisticName {
  const char* key;      // in files
  const char* title;    // in tables
  const char* meaning;  // the formula, in one line
};

inline constexpr std::array<StatisticName, kStatisticCount> kStatistics = {{
    {"mass", "mass", "mean row sum; 1 when dense"},
    {"self", "self", "mean A[i,i]"},
    {"previous", "previous", "mean A[i,i-1]"},
    {"sink", "sink", "mean A[i,0]"},
    {"column", "column",
     "largest mean of a column j >= 1 over the rows below it, at least max(8, T/8) of them"},
    {"spread_row", "spread row", "largest share of a row's keys above 1/(2(i+1))"},
    {"local", "local", "mean of the sum of A[i,j] over i-8 <= j <= i"},
    {"entropy", "entropy", "mean entropy of the normalised row over log(i+1); rows without mass left out"},
    {"peak", "peak", "mean of the row's largest A[i,j]"},
    {"strong", "strong", "cells off the diagonal above 0.5, a count per prompt"},
    {"kept", "prompt kept edges, count", "edges of a prompt that are open, a count"},
    {"density", "density", "prompt kept edges: the same as a share of the causal pairs"},
    {"value_mass", "value mass", "mean row sum of A[i,j] |v_j W_O|"},
    {"induction", "induction", "mean A[i,i-S+1] in the second copy of S random tokens"},
    {"duplicate", "duplicate", "mean A[i,i-S] in the second copy of S random tokens"},
    {"repeat_mass", "repeat mass", "mean row sum in the second copy of S random tokens"},
    {"row_mass", "row mass", "mean row sum with rows that are not spread counted as 0"},
    {"row_share", "row share",
     "share of the rows that are spread: 8 keys or more, half of them above 1/(2(i+1)) of its mass"},
}};

struct HeadNumbers {
  std::array<double, kStatisticCount> values;

  HeadNumbers() { values.fill(std::numeric_limits<double>::quiet_NaN()); }
  double& operator[](Statistic statistic) { return values[static_cast<size_t>(statistic)]; }
  double operator[](Statistic statistic) const { return values[static_cast<size_t>(statistic)]; }
  // A statistic as a share of the head's mass; 0 for a head without any.
  double share(Statistic statistic) const {
    const double mass = (*this)[Statistic::kMass];
    return mass > 0 ? (*this)[statistic] / mass : 0;
  }
  double repeat_share(Statistic statistic) const {
    const double mass = (*this)[Statistic::kRepeatMass];
    return mass > 0 ? (*this)[statistic] / mass : 0;
  }
};

enum class HeadClass {
  kBlank,
  kInduction,
  kDuplicate,
  kPrevious,
  kSelf,
  kSink,
  kLocal,
  kVertical,
  kHorizontal,
  kDiffuse,
  kMixed,
  kCount
};
inline constexpr size_t kClassCount = static_cast<size_t>(HeadClass::kCount);

struct HeadRecord {
  HeadPlace place;
  HeadNumbers mean, low, high;  // over prompts, with the 95 % interval
  HeadClass kind = HeadClass::kMixed;
  bool diagonal_dominant = false;
};

// Heads of which every two correlate at `level` or above.
struct RedundancyGroup {
  std::vector<int64_t> heads;     // layer * heads per layer + head, ascending
  double lowest_correlation = 1;  // of two of its heads
};
struct Redundancy {
  double level = 0;
  std::vector<RedundancyGroup> groups;  // of two heads or more, largest first
  int64_t blank = 0;                    // heads that are left out
  int64_t distinct = 0;                 // groups and heads that belong to none
};

// A pair of heads of different layers: the largest share that the earlier one's output has of the later one's
// query, key or value vectors, mean over prompts.
struct InteractingPair {
  int64_t earlier = 0, later = 0;  // layer * heads per layer + head
  char side = 'q';                 // q, k or v, whichever is largest
  double share = 0;
};
struct Interactions {
  double level = 0;
  std::vector<double> pairs_by_prompt;     // how many pairs are at the level or above
  std::vector<InteractingPair> strongest;  // by mean share, at most 50
};

struct ModelStatistics {
  std::string name;
  int64_t layers = 0, heads = 0;  // heads per layer
  bool gated = false;
  std::vector<HeadRecord> records;                  // layer by layer
  std::vector<std::vector<HeadNumbers>> by_prompt;  // [prompt][head], for paired tests
  std::vector<int64_t> prompt_tokens;
  double uniform_local = 0;   // what kLocal would be for a head that attends evenly
  int64_t repeat_length = 0;  // S; 0 where the context is too short
  int64_t repeat_prompts = 0;
  Redundancy redundancy;
  Interactions interactions;  // empty where they were not asked for
};

// The head that `index` counts, layer by layer.
inline HeadPlace place_of(const ModelStatistics& model, int64_t index) {
  return {index / model.heads, index % model.heads};
}

// One line of the table between two models.
struct ComparisonRow {
  std::string key, title;
  double dense = 0, sparse = 0, difference = 0;  // means over prompts; sparse - dense
  double low = 0, high = 0;                      // 95 % interval of the difference
  double p = 1, p_corrected = 1;                 // sign flips; Holm over the table
  int64_t prompts = 0;
  std::vector<double> dense_by_prompt, sparse_by_prompt;
};

}  // namespace openwork
