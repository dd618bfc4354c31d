#include "analyze/heads/model_comparison.h"

#include <fmt/format.h>

#include <functional>

#include "analyze/heads/head_classes.h"
#include "base/error.h"
#include "base/permutation_test.h"
#include "base/prompt_interval.h"

namespace openwork {
namespace {

using Heads = std::vector<HeadNumbers>;
using OnePrompt = std::function<double(const Heads&)>;

double sum_over(const Heads& heads, Statistic statistic) {
  double sum = 0;
  for (const HeadNumbers& head : heads) sum += head[statistic];
  return sum;
}

double mean_over(const Heads& heads, Statistic statistic) {
  return sum_over(heads, statistic) / static_cast<double>(heads.size());
}

double count_open(const Heads& heads) {
  double open = 0;
  for (const HeadNumbers& head : heads) open += !is_blank(head);
  return open;
}

// Of the heads that are not blank on the prompt; 0 where all are.
double diagonal_share(const Heads& heads) {
  double diagonal = 0;
  for (const HeadNumbers& head : heads) diagonal += is_diagonal_dominant(head);
  const double open = count_open(heads);
  return open > 0 ? diagonal / open : 0;
}

struct Line {
  const char *key, *title;
  OnePrompt value;
};

const std::vector<Line>& table_lines() {
  static const std::vector<Line> lines = {
      {"open_heads", "open heads (mass of 0.01 or more)", count_open},
      {"diagonal_dominant", "diagonal-dominant, share of open heads", diagonal_share},
      {"peak", "peak, mean over heads",
       [](const Heads& heads) { return mean_over(heads, Statistic::kPeak); }},
      {"diagonal_intensity", "diagonal intensity (self), mean over heads",
       [](const Heads& heads) { return mean_over(heads, Statistic::kSelf); }},
      {"strong_cells", "off-diagonal cells above 0.5, all heads",
       [](const Heads& heads) { return sum_over(heads, Statistic::kStrong); }},
      {"density", "prompt kept edges, share of the pairs",
       [](const Heads& heads) { return mean_over(heads, Statistic::kDensity); }},
  };
  return lines;
}

ComparisonRow compare_values(const char* key, const char* title, const std::vector<double>& dense,
                             const std::vector<double>& sparse, uint64_t seed) {
  std::vector<double> differences(dense.size());
  for (size_t n = 0; n < dense.size(); ++n) differences[n] = sparse[n] - dense[n];
  const PromptResampler resampler(dense.size(), seed);
  const MeanInterval change = resampler.summarise(differences);
  ComparisonRow row;
  row.key = key;
  row.title = title;
  row.dense_by_prompt = dense;
  row.sparse_by_prompt = sparse;
  row.dense = resampler.summarise(dense).mean;
  row.sparse = resampler.summarise(sparse).mean;
  row.difference = change.mean;
  row.low = change.low;
  row.high = change.high;
  row.p = sign_flip_test(differences, seed);
  row.prompts = static_cast<int64_t>(dense.size());
  return row;
}

}  // namespace

std::vector<ComparisonRow> compare_statistics(const ModelStatistics& dense, const ModelStatistics& sparse,
                                              uint64_t seed) {
  if (dense.by_prompt.size() != sparse.by_prompt.size()) {
    fail_input(fmt::format("{} prompts and {}", dense.by_prompt.size(), sparse.by_prompt.size()),
               "comparison", "use the same prompts for both");
  }
  const auto values_of = [](const ModelStatistics& model, const OnePrompt& value) {
    std::vector<double> values;
    for (const Heads& heads : model.by_prompt) values.push_back(value(heads));
    return values;
  };
  std::vector<ComparisonRow> rows;
  for (const Line& line : table_lines()) {
    rows.push_back(compare_values(line.key, line.title, values_of(dense, line.value),
                                  values_of(sparse, line.value), seed));
  }
  const auto &before = dense.interactions.pairs_by_prompt, &after = sparse.interactions.pairs_by_prompt;
  if (!before.empty() && before.size() == after.size()) {
    rows.push_back(
        compare_values("interacting_pairs", "strongly interacting head pairs", before, after, seed));
  }
  std::vector<double> p_values;
  for (const ComparisonRow& row : rows) p_values.push_back(row.p);
  const std::vector<double> corrected = correct_by_holm(p_values);
  for (size_t n = 0; n < rows.size(); ++n) rows[n].p_corrected = corrected[n];
  return rows;
}

void add_model(StatisticsReport& report, ModelStatistics model, uint64_t seed) {
  report.models.push_back(std::move(model));
  if (report.models.size() == 1) return;
  const ModelStatistics &first = report.models.front(), &added = report.models.back();
  report.comparisons.push_back({first.name, added.name, compare_statistics(first, added, seed)});
}

}  // namespace openwork
