#include "report/statistics_figures.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyze/heads/head_classes.h"
#include "draw/paired_change.h"
#include "draw/stacked_bars.h"
#include "draw/strip_chart.h"
#include "io/atomic_file.h"
#include "io/safe_files.h"
#include "report/captions.h"

namespace openwork {
namespace {

constexpr draw::Colour kBlankGrey{0.90, 0.91, 0.92};

// The classes that occur in any of the models, in the order of the table: a legend without what is not there.
std::vector<size_t> classes_seen(const StatisticsReport& report) {
  std::vector<size_t> seen;
  for (size_t n = 0; n < kClassCount; ++n) {
    const auto has = [&](const ModelStatistics& model) { return count_classes(model)[n] > 0; };
    if (std::any_of(report.models.begin(), report.models.end(), has)) seen.push_back(n);
  }
  return seen;
}

// A class keeps its colour whichever others are shown.
draw::Colour class_colour(size_t kind) {
  return kind == 0 ? kBlankGrey : draw::category_colour(static_cast<int>(kind) - 1);
}

std::vector<std::string> layer_names(const StatisticsReport& report) {
  int64_t layers = 0;
  for (const ModelStatistics& model : report.models) layers = std::max(layers, model.layers);
  std::vector<std::string> names;
  for (int64_t layer = 0; layer < layers; ++layer) names.push_back(fmt::format("L{}", layer));
  return names;
}

std::string prompts_note(const ModelStatistics& model) {
  return describe_lengths(model.prompt_tokens) + ".";
}

draw::Colour model_colour(const StatisticsReport& report, size_t index) {
  if (report.models.size() > 2) return draw::category_colour(static_cast<int>(index));
  return index == 0 && (report.models.size() == 2 || !report.models[0].gated) ? draw::kDense : draw::kSparse;
}

}  // namespace

draw::Figure draw_class_composition(const StatisticsReport& report, const std::string& protocol) {
  const std::vector<std::string> names = short_names_of(report.models);
  const std::vector<size_t> seen = classes_seen(report);
  draw::StackedBars bars;
  bars.caption.title = "Kinds of heads by layer";
  bars.caption.note =
      prompts_note(report.models.front()) + " Classes by shares of each head's mass. " + protocol;
  bars.places = layer_names(report);
  bars.y_name = "heads";
  bars.width = std::clamp(140.0 + 22.0 * static_cast<double>(bars.places.size()), 420.0, 760.0);
  for (const size_t kind : seen) {
    bars.parts.push_back(class_name(static_cast<HeadClass>(kind)));
    bars.colours.push_back(class_colour(kind));
  }
  for (size_t n = 0; n < report.models.size(); ++n) {
    draw::BarGroup group{names[n], {}};
    const auto counts = count_classes_by_layer(report.models[n]);
    for (size_t layer = 0; layer < bars.places.size(); ++layer) {
      std::vector<double>& heights = group.heights.emplace_back();
      for (const size_t kind : seen)
        heights.push_back(layer < counts.size() ? static_cast<double>(counts[layer][kind]) : 0);
    }
    bars.groups.push_back(std::move(group));
  }
  return draw_stacked_bars(bars);
}

draw::Figure draw_density(const StatisticsReport& report, const std::string& protocol) {
  const std::vector<std::string> names = short_names_of(report.models);
  draw::StripChart chart;
  chart.caption.title = "Prompt kept edges by head";
  chart.caption.note = prompts_note(report.models.front()) +
                       " One dot per head; heads that keep none lie on the axis. " + protocol;
  chart.y_name = "share of causal pairs";
  chart.y_logarithmic = true;
  chart.places = layer_names(report);
  chart.width = std::clamp(140.0 + 30.0 * static_cast<double>(chart.places.size()), 420.0, 900.0);
  chart.height +=
      draw::measure_caption({"", "", protocol}, chart.width) - draw::measure_caption({}, chart.width);
  for (size_t n = 0; n < report.models.size(); ++n) {
    draw::StripSeries series{names[n], std::vector<std::vector<double>>(chart.places.size()),
                             model_colour(report, n)};
    for (const HeadRecord& record : report.models[n].records) {
      series.values[static_cast<size_t>(record.place.layer)].push_back(record.mean[Statistic::kDensity]);
    }
    chart.series.push_back(std::move(series));
  }
  return draw_strip_chart(chart);
}

draw::Figure draw_head_changes(const ModelStatistics& dense, const ModelStatistics& sparse,
                               const NamePair& names, const std::string& protocol) {
  draw::PairedChange change;
  change.caption.title = "What changes in each head";
  change.caption.subtitle = fmt::format("{} to {}: one line per head", names.dense, names.sparse);
  change.caption.note = prompts_note(dense) + " " + protocol;
  change.left = names.dense, change.right = names.sparse;
  for (const Statistic statistic :
       {Statistic::kMass, Statistic::kPeak, Statistic::kEntropy, Statistic::kSelf, Statistic::kPrevious,
        Statistic::kSink, Statistic::kLocal, Statistic::kInduction}) {
    draw::PairedQuantity quantity;
    quantity.name = kStatistics[static_cast<size_t>(statistic)].title;
    double before = 0, after = 0;
    for (size_t n = 0; n < dense.records.size(); ++n) {
      const double a = dense.records[n].mean[statistic], b = sparse.records[n].mean[statistic];
      if (std::isnan(a) || std::isnan(b)) continue;
      quantity.before.push_back(a), quantity.after.push_back(b);
      before += a, after += b;
    }
    if (quantity.before.empty()) continue;
    const auto count = static_cast<double>(quantity.before.size());
    quantity.note = fmt::format("mean {} to {}", format_value(before / count), format_value(after / count));
    change.quantities.push_back(std::move(quantity));
  }
  return draw_paired_change(change);
}

draw::Figure draw_prompt_changes(const ModelComparison& comparison, const NamePair& names,
                                 const std::string& protocol) {
  draw::PairedChange change;
  change.caption.title = "What changes on each prompt";
  change.caption.subtitle = fmt::format("{} to {}: one line per prompt", names.dense, names.sparse);
  change.caption.note =
      "p: paired sign flips over prompts, two-sided, 10,000 draws, Holm-corrected over the table. " +
      protocol;
  change.left = names.dense, change.right = names.sparse;
  for (const ComparisonRow& row : comparison.rows) {
    change.quantities.push_back(
        {row.title, row.dense_by_prompt, row.sparse_by_prompt,
         fmt::format("p {}{}", row.p_corrected < 0.0002 ? "" : "= ", format_p(row.p_corrected)), false});
  }
  return draw_paired_change(change);
}

std::vector<NamedFigure> draw_statistics(const StatisticsReport& report, const std::string& protocol) {
  std::vector<NamedFigure> figures;
  const std::vector<std::string> names = short_names_of(report.models);
  figures.push_back({"classes", "Stacked bars: how many heads of each class every layer has.",
                     draw_class_composition(report, protocol)});
  figures.push_back({"density", "Dots: the share of causal pairs that each head keeps, by layer.",
                     draw_density(report, protocol)});
  for (size_t n = 0; n < report.comparisons.size(); ++n) {
    const ModelStatistics &dense = report.models[0], &sparse = report.models[n + 1];
    const NamePair pair{names[0], names[n + 1]};
    const std::string suffix = report.comparisons.size() > 1 ? fmt::format("_{}", n + 1) : "";
    if (dense.layers == sparse.layers && dense.heads == sparse.heads) {
      figures.push_back(
          {"change" + suffix,
           fmt::format("Lines from each head's value in {} to its value in {}.", pair.dense, pair.sparse),
           draw_head_changes(dense, sparse, pair, protocol)});
    }
    figures.push_back({"prompts" + suffix,
                       fmt::format("Lines from each prompt's value in {} to its value in {}, with tests.",
                                   pair.dense, pair.sparse),
                       draw_prompt_changes(report.comparisons[n], pair, protocol)});
  }
  return figures;
}

void write_figures(const std::vector<NamedFigure>& figures, const std::filesystem::path& folder) {
  make_folder(folder);
  for (const NamedFigure& figure : figures) {
    draw::write_figure(figure.figure, folder / (figure.name + ".svg"));
    draw::write_figure(figure.figure, folder / (figure.name + ".png"));
  }
}

void write_statistics(const StatisticsReport& report, const nlohmann::json& result,
                      const std::filesystem::path& folder) {
  make_folder(folder);
  write_text_file(folder / "statistics.json",
                  result.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  write_text_file(folder / "heads.csv", make_csv(report));
  write_text_file(folder / "statistics.md", make_markdown(report));
  write_figures(draw_statistics(report, describe_protocol(result.at("protocol"))), folder);
}

}  // namespace openwork
