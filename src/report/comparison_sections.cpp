#include "report/comparison_sections.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "analyze/heads/head_classes.h"
#include "base/interval_text.h"
#include "base/number_text.h"
#include "draw/figure.h"
#include "report/captions.h"
#include "report/comparison_figures.h"
#include "report/head_sprites.h"
#include "report/html.h"
#include "report/statistics_tables.h"
#include "report/times_fewer.h"

namespace openwork {
namespace {

std::string percent(double share) {
  if (share >= 0.9995) return "100 %";
  return fmt::format("{:.3g} %", 100 * share);
}

std::string tile(const std::string& name, const std::string& dense, const std::string& sparse,
                 const std::string& note) {
  return fmt::format(
      "<div class=\"tile\"><div class=\"name\">{}</div><div class=\"values\"><span class=\"dense\">{}</span>"
      "<span class=\"to\">→</span><span class=\"sparse\">{}</span></div><div class=\"note\">{}</div></div>\n",
      escape_html(name), escape_html(dense), escape_html(sparse), escape_html(note));
}

std::string figure_html(const NamedFigure& figure, const std::string& caption = "") {
  return picture_html(draw::render_figure(figure.figure, draw::Format::kSvg), figure.text, caption);
}

std::string chips(const std::vector<std::string>& names) {
  std::string out = "<div class=\"chips\">";
  for (const std::string& name : names)
    out += fmt::format("<span class=\"chip mono\">{}</span>", escape_html(name));
  return out + "</div>\n";
}

std::string tint(size_t model) {
  return model == 0 ? "dense" : "sparse";
}

// What pointing at a head says; of one without statistics, less.
std::string head_title(const ComparedModel& model, const CollectedHead& head,
                       const ModelStatistics* statistics) {
  const std::string name = fmt::format("{} {}: ", model.name, head.place.name());
  if (statistics == nullptr)
    return name + (head.summary.blank() ? "blank" : "mass " + format_value(head.summary.mass));
  const HeadRecord& record =
      statistics->records[static_cast<size_t>(head.place.layer * statistics->heads + head.place.head)];
  return name + fmt::format("{}, mass {}, keeps {}", class_name(record.kind), format_value(head.summary.mass),
                            percent(record.mean[Statistic::kDensity]));
}

// Heads side by side in a sheet.
int64_t columns_of(const ModelHeads& heads) {
  return std::min<int64_t>(heads.heads, 16);
}

std::string sheet_html(const ComparedModel& model, size_t index, const ModelStatistics* statistics) {
  const ModelHeads& heads = model.heads;
  const int64_t left_out = heads.layers * heads.heads - static_cast<int64_t>(heads.shown.size());
  std::string out = fmt::format(
      "<div><h3 class=\"{}\">{}</h3><p class=\"soft small\">{} heads, {} of them blank on this "
      "prompt{}.</p>\n",
      tint(index), escape_html(model.name), heads.shown.size(), heads.blank.size(),
      left_out > 0 ? fmt::format("; {} more are not shown", left_out) : "");
  out += fmt::format("<div class=\"heads across-{}\">\n", columns_of(heads));
  for (const CollectedHead& head : heads.shown) {
    const std::string title = escape_html(head_title(model, head, statistics)), name = head.place.name();
    out += "<figure class=\"head\">";
    if (head.summary.blank()) {
      out += fmt::format("<div class=\"blank\" role=\"img\" aria-label=\"{0}\" title=\"{0}\"></div>", title);
    } else {
      out += fmt::format("<img data-model=\"{0}\" data-head=\"{1}\" alt=\"{2}\" title=\"{2}\" src=\"{3}\">",
                         index, name, title,
                         data_url("image/png", make_sprite(head.cells.values, head.cells.side)));
    }
    out += fmt::format("<figcaption>{}</figcaption></figure>\n", name);
  }
  return out + "</div></div>\n";
}

std::string comparison_table(const ModelComparison& comparison) {
  HtmlTable table({"", "#" + comparison.dense, "#" + comparison.sparse, "#difference", "95 % interval", "#p",
                   "#p, Holm"});
  for (const ComparisonRow& row : comparison.rows) {
    table.add({row.title, format_value(row.dense), format_value(row.sparse), format_value(row.difference),
               format_interval(row), format_p(row.p), format_p(row.p_corrected)});
  }
  return table.html();
}

std::string class_table(const StatisticsReport& report) {
  std::vector<std::string> headings = {"class", "decided by"};
  for (const ModelStatistics& model : report.models) headings.push_back("#" + model.name);
  HtmlTable table(headings);
  for (const ClassRule& rule : kClassRules) {
    std::vector<std::string> cells = {rule.name,
                                      rule.kind == HeadClass::kMixed ? rule.measure
                                      : rule.kind == HeadClass::kBlank
                                          ? fmt::format("mass < {}", rule.threshold)
                                          : fmt::format("{}: {} or more", rule.measure, rule.threshold)};
    for (const ModelStatistics& model : report.models)
      cells.push_back(std::to_string(count_classes(model)[static_cast<size_t>(rule.kind)]));
    table.add(cells);
  }
  return table.html();
}

std::string redundancy_html(const ModelStatistics& model, size_t index) {
  const Redundancy& redundancy = model.redundancy;
  std::string out = fmt::format("<p><span class=\"{}\">{}</span>: {}, {}, {} blank.</p>\n", tint(index),
                                escape_html(model.name), count_of(redundancy.groups.size(), "group"),
                                count_of(redundancy.distinct, "distinct head"), redundancy.blank);
  for (const RedundancyGroup& group : redundancy.groups) {
    std::vector<std::string> names;
    for (const int64_t head : group.heads) names.push_back(place_of(model, head).name());
    out += chips(names);
  }
  return out;
}

std::string interactions_html(const ModelStatistics& model, size_t index) {
  if (model.interactions.strongest.empty()) return "";
  std::vector<std::string> names;
  for (const InteractingPair& pair : model.interactions.strongest) {
    if (names.size() == 12) break;
    names.push_back(fmt::format("{} → {} {} {:.2f}", place_of(model, pair.earlier).name(),
                                place_of(model, pair.later).name(), pair.side, pair.share));
  }
  return fmt::format("<p><span class=\"{}\">{}</span></p>\n", tint(index), escape_html(model.name)) +
         chips(names);
}

std::string head_table(const ModelStatistics& model) {
  std::vector<std::string> headings = {"head", "class"};
  for (const StatisticName& statistic : kStatistics) headings.push_back(std::string("#") + statistic.title);
  HtmlTable table(headings, "sortable compact");
  for (const HeadRecord& record : model.records) {
    std::vector<std::string> cells = {record.place.name(), class_name(record.kind)};
    for (const double value : record.mean.values) cells.push_back(format_value(value));
    table.add(cells);
  }
  return fmt::format("<details><summary>Every head of {}</summary>\n", escape_html(model.name)) +
         table.html() + "</details>\n";
}

std::string task_html(const TaskRecord& task) {
  std::string out = fmt::format(
      "<h3>{}</h3><p class=\"soft small\">{}, {}, {} ablation; a circuit is the smallest set of "
      "heads, largest effect first, that keeps {} of it.</p>\n",
      escape_html(task.task), count_of(task.prompts, "prompt"), escape_html(task.metric),
      escape_html(task.ablation), percent(task.threshold));
  HtmlTable table({"model", "#metric, clean", "#corrupt", "#heads needed", "95 % interval", "#of"});
  for (const TaskModel& model : task.models) {
    table.add({model.name, format_value(model.clean), format_value(model.corrupt),
               std::to_string(model.circuit.size()), interval_text(model.circuit_interval, 0),
               std::to_string(model.heads)});
  }
  out += table.html();
  if (task.ratio > 0) {
    const TimesFewer said = say_times_fewer(task.ratio, task.ratio_interval);
    const std::string whose = task.models.size() > 2 ? fmt::format(" in {} {} in {}", task.models.back().name,
                                                                   said.than, task.models.front().name)
                                                     : "";
    out += fmt::format("<p>{:.1f} times {} heads{} (95 % {}).</p>\n", said.times, said.fewer,
                       escape_html(whose), interval_text(said.interval, 1));
  }
  for (size_t n = 0; n < task.models.size(); ++n) {
    std::vector<std::string> names = task.models[n].circuit;
    const size_t all = names.size();
    if (names.size() > 24) names.resize(24);
    out += fmt::format("<p class=\"small\"><span class=\"{}\">{}</span>{}</p>\n", tint(n),
                       escape_html(task.models[n].name),
                       all > names.size() ? fmt::format(" (the first 24 of {})", all) : "");
    out += chips(names);
  }
  for (const NamedFigure& figure : task.figures) out += figure_html(figure);
  return out;
}

// Kept edges by row and of a prompt, where texts are short: the share over a long block says little of its first rows.
std::string short_texts_table(const ComparisonRecord& record) {
  std::vector<std::string> headings = {"kept edges by row"};
  for (const RowRange& range : kRowRanges) headings.push_back(fmt::format("#rows {}", range.name));
  headings.insert(headings.end(), {"#prompt kept edges", "#prompt open heads"});
  HtmlTable table(headings);
  const auto cell = [](const std::optional<double>& share) { return share ? percent(*share) : ""; };
  for (const ComparedModel& model : record.compared.models) {
    const Evaluation& loss = model.loss;
    std::vector<std::string> cells = {model.name};
    for (const auto& share : loss.kept_edges_by_row) cells.push_back(cell(share));
    cells.push_back(cell(loss.prompt_kept_edges));
    cells.push_back(loss.prompt_open_heads ? fmt::format("{:.1f}", *loss.prompt_open_heads) : "");
    table.add(cells);
  }
  return "<p class=\"soft\">Row n of a block sees n keys. The last two columns are means over the program's "
         "sample prompts; "
         "a head is open on a prompt when it keeps at least one edge of it.</p>\n" +
         table.html();
}

}  // namespace

std::string summary_section(const ComparisonRecord& record, const std::vector<std::string>& findings) {
  std::string out = "<div class=\"tiles\">\n";
  if (record.compared.models.size() == 2) {
    const Evaluation &dense = record.compared.models[0].loss, &sparse = record.compared.models[1].loss;
    const bool alike = record.compared.models[0].vocabulary == record.compared.models[1].vocabulary;
    const auto loss = [&](const Evaluation& model) {
      return fmt::format("{:.3f}", alike ? model.nats_per_token : model.bits_per_byte);
    };
    out += tile(alike ? "Loss, nats per token" : "Loss, bits per byte (two tokenizers)", loss(dense),
                loss(sparse), record.loss_data);
    out += tile("Kept attention edges", percent(dense.kept_edges), percent(sparse.kept_edges),
                "share of all causal pairs of all heads");
    out += tile("Open heads", std::to_string(dense.open_heads), std::to_string(sparse.open_heads),
                "keep more than 0.01 % of their pairs");
    if (dense.prompt_open_heads && sparse.prompt_open_heads) {
      out += tile("Prompt open heads", fmt::format("{:.1f}", *dense.prompt_open_heads),
                  fmt::format("{:.1f}", *sparse.prompt_open_heads),
                  "keep an edge of it; mean over the sample prompts");
    }
  }
  for (const TaskRecord& task : record.tasks) {
    if (task.models.size() != 2) continue;
    out += tile(fmt::format("Heads needed: {}", task.task), std::to_string(task.models[0].circuit.size()),
                std::to_string(task.models[1].circuit.size()),
                fmt::format("{} of the effect, {} ablation", percent(task.threshold), task.ablation));
  }
  out += "</div>\n<ul class=\"findings\">\n";
  for (const std::string& finding : findings) out += fmt::format("<li>{}</li>\n", escape_html(finding));
  return out + "</ul>\n";
}

std::string loss_section(const ComparisonRecord& record) {
  if (record.compared.models.empty()) return "";
  HtmlTable table({"model", "#nats/token", "95 % interval", "#bits/byte", "#kept edges", "#open heads",
                   "#closed heads", "#tokens", "#documents"});
  for (const ComparedModel& model : record.compared.models) {
    const Evaluation& loss = model.loss;
    table.add({model.name, fmt::format("{:.4f}", loss.nats_per_token),
               interval_text({loss.low, loss.high}, 4), fmt::format("{:.4f}", loss.bits_per_byte),
               percent(loss.kept_edges), fmt::format("{} of {}", loss.open_heads, loss.head_count()),
               std::to_string(loss.closed_heads), group_digits(loss.tokens), group_digits(loss.documents)});
  }
  return fmt::format(
             "<p class=\"soft\">Measured on {}; documents are resampled for the interval, gates are "
             "hard.</p>\n",
             escape_html(record.loss_data)) +
         table.html() + short_texts_table(record);
}

std::string heads_style(const ComparisonRecord& record) {
  std::string rules = fmt::format(".scale i {{ background: {}; }}\n", sprite_gradient());
  for (const ComparedModel& model : record.compared.models)
    rules += fmt::format(".across-{0} {{ --columns: {0}; }}\n", columns_of(model.heads));
  return rules;
}

std::string heads_section(const ComparisonRecord& record) {
  if (record.compared.models.empty()) return "";
  std::string out = fmt::format(
      "<p class=\"soft\">Every head on one prompt: queries downwards, keys to the right, one cell per pair "
      "of tokens. Point at a cell to read it in {} models "
      "(to 1/255); click for a larger view.</p>\n<p class=\"mono small\">{}</p>\n"
      "<div class=\"scale\"><span>0</span><i></i><span>1</span><span>attention, "
      "shaded by its square root</span></div>\n<div class=\"pair\">\n",
      record.compared.models.size() > 2 ? "all" : "both", escape_html(record.prompt));
  const std::vector<ModelStatistics>& statistics = record.compared.statistics.models;
  for (size_t n = 0; n < record.compared.models.size(); ++n)
    out += sheet_html(record.compared.models[n], n, n < statistics.size() ? &statistics[n] : nullptr);
  return out + "</div>\n<div id=\"reading\"><span class=\"soft\">Point at a head.</span></div>\n";
}

std::string statistics_section(const ComparisonRecord& record) {
  const StatisticsReport& report = record.compared.statistics;
  if (report.models.empty()) return "";
  std::string out;
  for (const ModelComparison& comparison : report.comparisons) {
    out += fmt::format(
        "<p class=\"soft\">{}. Each line is tested by flipping the signs of the prompts' differences "
        "(two-sided, 10,000 draws); Holm's correction is over the table.</p>\n",
        count_of(comparison.rows.empty() ? 0 : comparison.rows[0].prompts, "prompt"));
    out += comparison_table(comparison);
  }
  out += "<div class=\"pair\">\n";
  for (const NamedFigure& figure : draw_statistics(report, describe_protocol(record.protocol)))
    out += figure_html(figure);
  out += "</div>\n";
  out +=
      "<h3>Classes</h3>\n<p class=\"soft small\">The first rule that holds decides. Shares are of the head's "
      "own mass.</p>\n" +
      class_table(report);
  out += fmt::format(
      "<h3>Heads that do the same</h3>\n<p class=\"soft small\">Every two heads of a group have patterns "
      "that correlate at {} or above.</p>\n",
      report.models[0].redundancy.level);
  for (size_t n = 0; n < report.models.size(); ++n) out += redundancy_html(report.models[n], n);
  if (!report.models[0].interactions.pairs_by_prompt.empty()) {
    out += fmt::format(
        "<h3>Heads that read heads</h3>\n<p class=\"soft small\">The strongest: what share of a later head's "
        "query (q), key (k) or value (v) vectors is an earlier head's output. From {} on a pair counts as "
        "strongly interacting.</p>\n",
        report.models[0].interactions.level);
    for (size_t n = 0; n < report.models.size(); ++n) out += interactions_html(report.models[n], n);
  }
  for (const ModelStatistics& model : report.models) out += head_table(model);
  return out;
}

std::string scatter_section(const ComparisonRecord& record) {
  std::string out;
  for (const NamedFigure& figure : draw_compared_scatter(record)) out += figure_html(figure);
  return out.empty() ? ""
                     : "<p class=\"soft\">Head against head over all causal pairs of the prompt.</p>\n" + out;
}

std::string tasks_section(const ComparisonRecord& record) {
  std::string out;
  for (const TaskRecord& task : record.tasks) out += task_html(task);
  return out;
}

std::string trace_section(const ComparisonRecord& record) {
  if (!record.trace) return "";
  const TraceRecord& trace = *record.trace;
  std::string out = fmt::format(
      "<p class=\"soft\">Exact linear effects with attention patterns, norms and gates held as the prompt "
      "has "
      "them, {} as nodes. Counted below: the heads that carry {} of what moves from {} to {}.</p>\n"
      "<p class=\"mono small\">{}</p>\n",
      trace.features ? "transcoders' features" : "whole MLPs", percent(trace.share), escape_html(trace.from),
      escape_html(trace.to), escape_html(record.prompt));
  if (!trace.answers.empty()) out += fmt::format("<p>{}</p>\n", escape_html(trace.answers));
  HtmlTable table({"model", "answer", "#probability", "#heads needed", "#of", "first"});
  for (const TracedModelRecord& model : trace.models) {
    table.add({model.name, model.answer, percent(model.probability), std::to_string(model.heads_needed),
               std::to_string(model.heads), model.first_heads});
  }
  out += table.html();
  for (const NamedFigure& figure : trace.figures) out += figure_html(figure);
  return out;
}

std::string samples_section(const ComparisonRecord& record) {
  const std::vector<Sample> samples = list_samples(record.compared);
  if (samples.empty()) return "";
  std::string out = fmt::format(
      "<p class=\"soft\">Generated by sampling at temperature {} among the {} most likely tokens, the same "
      "random numbers for {}.</p>\n",
      kSampleTemperature, kSampleTopK, record.compared.models.size() == 2 ? "both" : "all");
  for (const Sample& sample : samples) {
    out += "<div class=\"pair apart\">\n";
    for (size_t n = 0; n < sample.continuations.size(); ++n) {
      out += fmt::format(
          "<div class=\"sample\"><h4 class=\"{}\">{}</h4><span class=\"given\">{}</span>{}</div>\n", tint(n),
          escape_html(record.compared.models[n].name), escape_html(sample.opening),
          escape_html(sample.continuations[n]));
    }
    out += "</div>\n";
  }
  return out;
}

std::string protocol_section(const ComparisonRecord& record) {
  return fmt::format(
      "<p class=\"soft\">What is needed to repeat this.</p>\n<pre>{}</pre>\n",
      escape_html(record.protocol.dump(2, ' ', false, nlohmann::json::error_handler_t::replace)));
}

}  // namespace openwork
