#include "report/statistics_tables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "analyze/heads/head_classes.h"
#include "base/number_text.h"
#include "io/interval_json.h"

namespace openwork {
namespace {

nlohmann::json number_or_null(double value) {
  return std::isnan(value) ? nlohmann::json() : nlohmann::json(value);
}

nlohmann::json head_to_json(const HeadRecord& record) {
  nlohmann::json head = {{"name", record.place.name()},
                         {"layer", record.place.layer},
                         {"head", record.place.head},
                         {"class", class_name(record.kind)},
                         {"diagonal_dominant", record.diagonal_dominant}};
  for (size_t s = 0; s < kStatisticCount; ++s) {
    head[kStatistics[s].key] = {{"mean", number_or_null(record.mean.values[s])},
                                {"interval", interval_json({record.low.values[s], record.high.values[s]})}};
  }
  return head;
}

nlohmann::json redundancy_to_json(const ModelStatistics& model) {
  nlohmann::json groups = nlohmann::json::array();
  for (const RedundancyGroup& group : model.redundancy.groups) {
    nlohmann::json names = nlohmann::json::array();
    for (const int64_t head : group.heads) names.push_back(place_of(model, head).name());
    groups.push_back(
        {{"heads", names}, {"size", group.heads.size()}, {"lowest_correlation", group.lowest_correlation}});
  }
  return {{"level", model.redundancy.level},
          {"groups", groups},
          {"blank", model.redundancy.blank},
          {"distinct", model.redundancy.distinct}};
}

nlohmann::json interactions_to_json(const ModelStatistics& model) {
  if (model.interactions.pairs_by_prompt.empty()) return nullptr;
  nlohmann::json strongest = nlohmann::json::array();
  for (const InteractingPair& pair : model.interactions.strongest) {
    strongest.push_back({{"earlier", place_of(model, pair.earlier).name()},
                         {"later", place_of(model, pair.later).name()},
                         {"side", std::string(1, pair.side)},
                         {"share", pair.share}});
  }
  return {{"level", model.interactions.level},
          {"pairs_by_prompt", model.interactions.pairs_by_prompt},
          {"strongest", strongest}};
}

void append_model_markdown(const ModelStatistics& model, std::string& out) {
  out += fmt::format("## {}\n{} of {}, {}. Classes:\n\n| class | heads |\n|---|---|\n", model.name,
                     count_of(model.layers, "layer"), count_of(model.heads, "head"),
                     count_of(model.prompt_tokens.size(), "prompt"));
  const std::vector<int64_t> counts = count_classes(model);
  for (size_t n = 0; n < kClassCount; ++n)
    out += fmt::format("| {} | {} |\n", class_name(static_cast<HeadClass>(n)), counts[n]);
  out += fmt::format("\nRedundancy at a correlation of {}: {}, {}, {} blank.\n", model.redundancy.level,
                     count_of(model.redundancy.groups.size(), "group"),
                     count_of(model.redundancy.distinct, "distinct head"), model.redundancy.blank);
  for (const RedundancyGroup& group : model.redundancy.groups) {
    std::vector<std::string> names;
    for (const int64_t head : group.heads) names.push_back(place_of(model, head).name());
    out +=
        fmt::format("- {} (lowest correlation {:.3f})\n", fmt::join(names, ", "), group.lowest_correlation);
  }
  out += "\n| head | class |";
  for (const StatisticName& statistic : kStatistics) out += fmt::format(" {} |", statistic.title);
  out += "\n|---|---|";
  for (size_t s = 0; s < kStatisticCount; ++s) out += "---|";
  out += "\n";
  for (const HeadRecord& record : model.records) {
    out += fmt::format("| {} | {} |", record.place.name(), class_name(record.kind));
    for (const double value : record.mean.values) out += fmt::format(" {} |", format_value(value));
    out += "\n";
  }
  out += "\n";
}

void append_comparison_markdown(const ModelComparison& comparison, std::string& out) {
  out += fmt::format(
      "## {} against {}\n\n| | {} | {} | difference | 95 % interval | p | p, Holm | prompts "
      "|\n|---|---|---|---|---|---|---|---|\n",
      comparison.sparse, comparison.dense, comparison.dense, comparison.sparse);
  for (const ComparisonRow& row : comparison.rows) {
    out += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} |\n", row.title, format_value(row.dense),
                       format_value(row.sparse), format_value(row.difference), format_interval(row),
                       format_p(row.p), format_p(row.p_corrected), row.prompts);
  }
  out += "\n";
}

}  // namespace

std::string format_value(double value) {
  if (std::isnan(value)) return "–";
  if (value == 0) return "0";
  if (std::abs(value) >= 100) return fmt::format("{:.0f}", value);
  if (std::abs(value) >= 10) return fmt::format("{:.1f}", value);
  if (std::abs(value) >= 0.001) return fmt::format("{:.3f}", value);
  return fmt::format("{:.1e}", value);
}

std::string format_interval(const ComparisonRow& row) {
  if (!exists(Interval{row.low, row.high})) return "no interval";
  return fmt::format("[{}, {}]", format_value(row.low), format_value(row.high));
}

std::string format_p(double p) {
  return p < 0.0002 ? "< 0.0002" : fmt::format("{:.4f}", p);
}

nlohmann::json to_json(const ModelStatistics& model) {
  nlohmann::json heads = nlohmann::json::array(), classes = nlohmann::json::object();
  for (const HeadRecord& record : model.records) heads.push_back(head_to_json(record));
  const std::vector<int64_t> counts = count_classes(model);
  for (size_t n = 0; n < kClassCount; ++n) classes[class_name(static_cast<HeadClass>(n))] = counts[n];
  return {{"name", model.name},
          {"layers", model.layers},
          {"heads_per_layer", model.heads},
          {"gated", model.gated},
          {"prompt_tokens", model.prompt_tokens},
          {"repeat_length", model.repeat_length},
          {"repeat_prompts", model.repeat_prompts},
          {"uniform_local", model.uniform_local},
          {"classes", classes},
          {"heads", heads},
          {"redundancy", redundancy_to_json(model)},
          {"interactions", interactions_to_json(model)}};
}

nlohmann::json to_json(const ModelComparison& comparison) {
  nlohmann::json rows = nlohmann::json::array();
  for (const ComparisonRow& row : comparison.rows) {
    rows.push_back({{"key", row.key},
                    {"title", row.title},
                    {"dense", row.dense},
                    {"sparse", row.sparse},
                    {"difference", row.difference},
                    {"interval", interval_json({row.low, row.high})},
                    {"p", row.p},
                    {"p_holm", row.p_corrected},
                    {"prompts", row.prompts}});
  }
  return {{"dense", comparison.dense}, {"sparse", comparison.sparse}, {"rows", rows}};
}

nlohmann::json to_json(const StatisticsReport& report) {
  nlohmann::json models = nlohmann::json::array(), comparisons = nlohmann::json::array();
  for (const ModelStatistics& model : report.models) models.push_back(to_json(model));
  for (const ModelComparison& comparison : report.comparisons) comparisons.push_back(to_json(comparison));
  return {{"models", models}, {"comparisons", comparisons}};
}

nlohmann::json describe_statistics(const StatisticsOptions& statistics, const nlohmann::json& prompts) {
  nlohmann::json rules = nlohmann::json::array();
  for (const ClassRule& rule : kClassRules)
    rules.push_back({{"class", rule.name}, {"measure", rule.measure}, {"threshold", rule.threshold}});
  return {{"prompts", prompts},
          {"gates", "hard"},
          {"rows", "i >= 1"},
          {"interval", "95 %, prompts resampled, 1000 draws"},
          {"test",
           "paired sign flips over prompts, two-sided, 10000 draws, p = (1 + hits) / (1 + draws), Holm over "
           "the table"},
          {"repeat", {{"tokens", statistics.repeat_length}, {"prompts", statistics.repeat_prompts}}},
          {"redundancy_level", statistics.redundancy_level},
          {"interaction_level", statistics.interaction_level},
          {"classes", rules}};
}

std::string make_csv(const StatisticsReport& report) {
  std::string out = "model,layer,head,class,diagonal_dominant";
  for (const StatisticName& statistic : kStatistics)
    out += fmt::format(",{0},{0}_low,{0}_high", statistic.key);
  out += "\n";
  const auto cell = [](double value) { return std::isnan(value) ? std::string() : fmt::format("{}", value); };
  for (const ModelStatistics& model : report.models) {
    // A name may hold a comma or a quote: it is quoted, with its own quotes doubled.
    std::string name = "\"";
    for (const char c : model.name) name += c == '"' ? "\"\"" : std::string(1, c);
    for (const HeadRecord& record : model.records) {
      out += fmt::format("{}\",{},{},{},{}", name, record.place.layer, record.place.head,
                         class_name(record.kind), record.diagonal_dominant ? 1 : 0);
      for (size_t s = 0; s < kStatisticCount; ++s) {
        out += fmt::format(",{},{},{}", cell(record.mean.values[s]), cell(record.low.values[s]),
                           cell(record.high.values[s]));
      }
      out += "\n";
    }
  }
  return out;
}

std::string make_markdown(const StatisticsReport& report) {
  std::string out = "# Head statistics\n\n";
  for (const ModelComparison& comparison : report.comparisons) append_comparison_markdown(comparison, out);
  for (const ModelStatistics& model : report.models) append_model_markdown(model, out);
  return out;
}

}  // namespace openwork
