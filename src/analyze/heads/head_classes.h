// What kind of head a head is, by the numbers of docs/method.md, 3 and the thresholds of one table.
// Shares are of the head's own mass, so that a sparse head with little mass is judged by where that mass is.
// The rules are tried in the table's order and the first that holds decides; a head that fits none is mixed.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "analyze/heads/head_records.h"

namespace openwork {

struct ClassRule {
  HeadClass kind;
  const char* name;     // in files and figures
  const char* measure;  // what is compared, in words
  double threshold;     // the measure is at least this (blank: below it)
};

inline constexpr std::array<ClassRule, kClassCount> kClassRules = {{
    {HeadClass::kBlank, "blank", "mass, below", 0.01},
    {HeadClass::kInduction, "induction", "induction / repeat mass", 0.3},
    {HeadClass::kDuplicate, "duplicate-token", "duplicate / repeat mass", 0.3},
    {HeadClass::kPrevious, "previous-token", "previous / mass", 0.5},
    {HeadClass::kSelf, "self", "self / mass", 0.5},
    {HeadClass::kSink, "sink", "sink / mass", 0.5},
    {HeadClass::kLocal, "local", "(local / mass - u) / (1 - u), u an even head's", 0.6},
    {HeadClass::kVertical, "vertical", "column / mass", 0.25},
    {HeadClass::kHorizontal, "horizontal", "row mass / mass, with a row share of at most one half", 0.5},
    {HeadClass::kDiffuse, "diffuse", "entropy", 0.7},
    {HeadClass::kMixed, "mixed", "none of these", 0},
}};

inline constexpr double kDiagonalDominance = 0.5;  // (self + previous) / mass
inline constexpr double kFewRows = 0.5;            // a horizontal head's spread rows are at most this share

const char* class_name(HeadClass kind);

// `uniform_local` is what the local mass would be for a head that attends evenly (1 where all is near).
HeadClass classify_head(const HeadNumbers& numbers, double uniform_local);

bool is_blank(const HeadNumbers& numbers);
bool is_diagonal_dominant(const HeadNumbers& numbers);  // never true of a blank head

// How many heads of each class, in the order of HeadClass; in all, and by layer.
std::vector<int64_t> count_classes(const ModelStatistics& model);
std::vector<std::vector<int64_t>> count_classes_by_layer(const ModelStatistics& model);  // [layer][class]

// Heads with the largest mean of a statistic, largest first.
std::vector<const HeadRecord*> leading_heads(const ModelStatistics& model, Statistic statistic, size_t count);

}  // namespace openwork
