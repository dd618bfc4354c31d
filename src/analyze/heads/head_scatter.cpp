#include "analyze/heads/head_scatter.h"

#include <algorithm>
#include <utility>

#include "analyze/heads/head_classes.h"
#include "base/correlation.h"
#include "base/error.h"
#include "base/parallel.h"

namespace openwork {
namespace {

// Both halves of each matrix; the diagonal is 1.
void correlate_heads(HeadScatter& scatter) {
  const size_t count = scatter.places.size();
  scatter.pearson.assign(count, std::vector<double>(count, 1));
  scatter.spearman = scatter.pearson;
  parallel_for(count * count, [&](size_t n) {
    const size_t a = n / count, b = n % count;
    if (a >= b) return;
    scatter.pearson[a][b] = scatter.pearson[b][a] = pearson_correlation(scatter.values[a], scatter.values[b]);
    scatter.spearman[a][b] = scatter.spearman[b][a] =
        spearman_correlation(scatter.values[a], scatter.values[b]);
  });
}

}  // namespace

void check_scatter(size_t heads, int64_t tokens) {
  if (heads < 2 || tokens < 2)
    fail_input("nothing to compare", "scatter", "give two heads and two tokens at least");
}

HeadScatter scatter_heads(const Transformer& model, const Tensor& ids, const std::vector<HeadPlace>& places) {
  HeadScatter scatter;
  scatter.gated = model.config().gate != GateKind::kNone;
  scatter.prompts = ids.size(0), scatter.tokens = ids.size(1);
  scatter.places = places;
  scatter.values.resize(places.size());
  visit_patterns(model, ids, [&](const PatternView& pattern) {
    const auto it = std::find(places.begin(), places.end(), pattern.place);
    if (it != places.end()) scatter.values[static_cast<size_t>(it - places.begin())] = causal_values(pattern);
  });
  correlate_heads(scatter);
  return scatter;
}

std::vector<HeadPlace> find_sharpest(const Transformer& model, const Tensor& ids, size_t count) {
  const auto heads = static_cast<size_t>(model.config().heads);
  std::vector<std::pair<double, HeadPlace>> found(static_cast<size_t>(model.config().layers) * heads);
  visit_patterns(model, ids, [&](const PatternView& pattern) {
    const size_t index =
        static_cast<size_t>(pattern.place.layer) * heads + static_cast<size_t>(pattern.place.head);
    found[index] = {summarise_pattern(pattern, 0).peak, pattern.place};
  });
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  found.resize(std::min(found.size(), count));
  std::vector<HeadPlace> places;
  for (const auto& [peak, place] : found) places.push_back(place);
  std::sort(places.begin(), places.end());
  return places;
}

std::vector<HeadPlace> find_leading(const ModelStatistics& statistics) {
  std::vector<HeadPlace> places;
  const auto add = [&](Statistic statistic, size_t count) {
    for (const HeadRecord* head : leading_heads(statistics, statistic, count)) {
      if (std::find(places.begin(), places.end(), head->place) == places.end()) places.push_back(head->place);
    }
  };
  add(Statistic::kInduction, 2), add(Statistic::kPrevious, 1), add(Statistic::kDuplicate, 1),
      add(Statistic::kSelf, 1), add(Statistic::kSink, 1);
  std::sort(places.begin(), places.end());
  return places;
}

}  // namespace openwork
