#include "analyze/heads/head_classes.h"

#include <algorithm>
#include <cmath>

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

std::vector<std::vector<int64_t>> count_classes_by_layer(const ModelStatistics& model) {
  std::vector<std::vector<int64_t>> counts(static_cast<size_t>(model.layers),
                                           std::vector<int64_t>(kClassCount, 0));
  for (const HeadRecord& record : model.records)
    ++counts[static_cast<size_t>(record.place.layer)][static_cast<size_t>(record.kind)];
  return counts;
}

std::vector<int64_t> count_classes(const ModelStatistics& model) {
  std::vector<int64_t> counts(kClassCount, 0);
  for (const HeadRecord& record : model.records) ++counts[static_cast<size_t>(record.kind)];
  return counts;
}

std::vector<const HeadRecord*> leading_heads(const ModelStatistics& model, Statistic statistic,
                                             size_t count) {
  std::vector<const HeadRecord*> order;
  for (const HeadRecord& record : model.records) {
    if (!std::isnan(record.mean[statistic])) order.push_back(&record);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](auto* a, auto* b) { return a->mean[statistic] > b->mean[statistic]; });
  order.resize(std::min(order.size(), count));
  return order;
}

}  // namespace openwork
