#include "report/statistics_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "analyze/heads/head_classes.h"
#include "base/number_text.h"
#include "report/captions.h"
#include "report/statistics_tables.h"

namespace openwork {
namespace {

std::string name_heads(const std::vector<const HeadRecord*>& heads, Statistic statistic) {
  std::vector<std::string> names;
  for (const HeadRecord* head : heads)
    names.push_back(fmt::format("{} {}", head->place.name(), format_value(head->mean[statistic])));
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

std::vector<std::string> format_statistics(const ModelStatistics& model) {
  std::vector<std::string> lines;
  lines.push_back(fmt::format("{}: {} of {}, {}", model.name, count_of(model.layers, "layer"),
                              count_of(model.heads, "head"), describe_lengths(model.prompt_tokens)));
  const std::vector<int64_t> counts = count_classes(model);
  const auto by_layer = count_classes_by_layer(model);
  for (size_t kind = 0; kind < kClassCount; ++kind) {
    if (counts[kind] == 0) continue;
    std::string layers;
    for (const auto& layer : by_layer) layers += layer[kind] > 0 ? fmt::format("{:>3}", layer[kind]) : "  .";
    lines.push_back(
        fmt::format("  {:<16} {:>5} {}", class_name(static_cast<HeadClass>(kind)), counts[kind], layers));
  }
  for (const Statistic statistic : {Statistic::kInduction, Statistic::kDuplicate, Statistic::kPrevious,
                                    Statistic::kSelf, Statistic::kSink}) {
    lines.push_back(fmt::format("  most {:<11} {}", kStatistics[static_cast<size_t>(statistic)].title,
                                name_heads(leading_heads(model, statistic, 3), statistic)));
  }
  lines.push_back(fmt::format("  redundancy       {} at a correlation of {}; {}, {} blank",
                              count_of(model.redundancy.groups.size(), "group"), model.redundancy.level,
                              count_of(model.redundancy.distinct, "distinct head"), model.redundancy.blank));
  return lines;
}

std::vector<std::string> format_comparison(const ModelComparison& comparison) {
  std::vector<std::string> lines;
  lines.push_back(fmt::format("\n{} to {}\n{:<44} {:>9} {:>9} {:>10} {:<22} {:>9}", comparison.dense,
                              comparison.sparse, "", "dense", "sparse", "difference", "95 % interval",
                              "p, Holm"));
  for (const ComparisonRow& row : comparison.rows) {
    lines.push_back(fmt::format("{:<44} {:>9} {:>9} {:>10} {:<22} {:>9}", row.title, format_value(row.dense),
                                format_value(row.sparse), format_value(row.difference), format_interval(row),
                                format_p(row.p_corrected)));
  }
  if (!comparison.rows.empty())
    lines.push_back(fmt::format("{}; sign flips, two-sided, {} draws",
                                count_of(comparison.rows[0].prompts, "prompt"), 10000));
  return lines;
}

}  // namespace openwork
