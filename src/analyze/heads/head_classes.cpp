#include "analyze/heads/head_classes.h"

namespace openwork {
namespace {

// The number that a rule's threshold is held against; NaN, where it does not exist, meets no threshold.
double measure_of(HeadClass kind, const HeadNumbers& numbers, double uniform_local) {
  switch (kind) {
    case HeadClass::kInduction:
      return numbers.repeat_share(Statistic::kInduction);
    case HeadClass::kDuplicate:
      return numbers.repeat_share(Statistic::kDuplicate);
    case HeadClass::kPrevious:
      return numbers.share(Statistic::kPrevious);
    case HeadClass::kSelf:
      return numbers.share(Statistic::kSelf);
    case HeadClass::kSink:
      return numbers.share(Statistic::kSink);
    case HeadClass::kVertical:
      return numbers.share(Statistic::kColumn);
    case HeadClass::kLocal:
      return uniform_local < 1 ? (numbers.share(Statistic::kLocal) - uniform_local) / (1 - uniform_local) : 0;
    case HeadClass::kHorizontal:
      return numbers[Statistic::kRowShare] <= kFewRows ? numbers.share(Statistic::kRowMass) : 0;
    case HeadClass::kDiffuse:
      return numbers[Statistic::kEntropy];
    default:
      return 0;
  }
}

}  // namespace

const char* class_name(HeadClass kind) {
  for (const ClassRule& rule : kClassRules) {
    if (rule.kind == kind) return rule.name;
  }
  return "";
}

bool is_blank(const HeadNumbers& numbers) {
  return !(numbers[Statistic::kMass] >= kClassRules[0].threshold);
}

HeadClass classify_head(const HeadNumbers& numbers, double uniform_local) {
  if (is_blank(numbers)) return HeadClass::kBlank;
  for (const ClassRule& rule : kClassRules) {
    if (rule.kind == HeadClass::kBlank || rule.kind == HeadClass::kMixed) continue;
    if (measure_of(rule.kind, numbers, uniform_local) >= rule.threshold) return rule.kind;
  }
  return HeadClass::kMixed;
}

bool is_diagonal_dominant(const HeadNumbers& numbers) {
  return !is_blank(numbers) &&
         numbers.share(Statistic::kSelf) + numbers.share(Statistic::kPrevious) >= kDiagonalDominance;
}

}  // namespace openwork
