#include "report/comparison_sections.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "analyze/heads/head_classes.h"
#include "draw/figure.h"
#include "report/head_sprites.h"
#include "report/html.h"

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

std::string sheet_html(const HeadSheet& sheet, size_t model) {
  const int64_t columns = sheet.heads <= 16 ? sheet.heads : 16;
  const auto blank = std::count_if(sheet.pictures.begin(), sheet.pictures.end(),
                                   [](const HeadPicture& head) { return head.png.empty(); });
  std::string out = fmt::format(
      "<div><h3 class=\"{}\">{}</h3><p class=\"soft small\">{} heads, {} of them blank on this "
      "prompt{}.</p>\n",
      tint(model), escape_html(sheet.model), sheet.pictures.size(), blank,
      sheet.left_out > 0 ? fmt::format("; {} more are not shown", sheet.left_out) : "");
  out += fmt::format("<div class=\"heads\" style=\"--columns:{}\">\n", columns);
  for (const HeadPicture& head : sheet.pictures) {
    const std::string title = fmt::format("{} {}: {}, mass {}, keeps {}", sheet.model, head.name, head.kind,
                                          format_value(head.mass), percent(head.density));
    out += "<figure class=\"head\">";
    if (head.png.empty()) {
      out += fmt::format("<div class=\"blank\" title=\"{}\"></div>", escape_html(title));
    } else {
      out += fmt::format("<img data-model=\"{}\" data-head=\"{}\" alt=\"\" title=\"{}\" src=\"{}\">", model,
                         head.name, escape_html(title), data_url("image/png", head.png));
    }
    out += fmt::format("<figcaption>{}</figcaption></figure>\n", head.name);
  }
  return out + "</div></div>\n";
}

std::string comparison_table(const ModelComparison& comparison) {
  HtmlTable table({"", "#" + comparison.dense, "#" + comparison.sparse, "#difference", "95 % interval", "#p",
                   "#p, Holm"});
  for (const ComparisonRow& row : comparison.rows) {
    table.add({row.title, format_value(row.dense), format_value(row.sparse), format_value(row.difference),
               fmt::format("{} to {}", format_value(row.low), format_value(row.high)), format_p(row.p),
               format_p(row.p_corrected)});
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
  std::string out = fmt::format(
      "<p><span class=\"{}\">{}</span>: {} groups, {} distinct heads, {} blank.</p>\n", tint(index),
      escape_html(model.name), redundancy.groups.size(), redundancy.distinct, redundancy.blank);
  for (const RedundancyGroup& group : redundancy.groups) {
    std::vector<std::string> names;
    for (const int64_t head : group.heads) names.push_back(head_name(model, head));
    out += chips(names);
  }
  return out;
}

std::string interactions_html(const ModelStatistics& model, size_t index) {
  if (model.interactions.strongest.empty()) return "";
  std::vector<std::string> names;
  for (const InteractingPair& pair : model.interactions.strongest) {
    if (names.size() == 12) break;
    names.push_back(fmt::format("{} → {} {} {:.2f}", head_name(model, pair.earlier),
                                head_name(model, pair.later), pair.side, pair.share));
  }
  return fmt::format("<p><span class=\"{}\">{}</span></p>\n", tint(index), escape_html(model.name)) +
         chips(names);
}

std::string head_table(const ModelStatistics& model) {
  std::vector<std::string> headings = {"head", "class"};
  for (const StatisticName& statistic : kStatistics) headings.push_back(std::string("#") + statistic.title);
  HtmlTable table(headings, "sortable compact");
  for (const HeadRecord& record : model.records) {
    std::vector<std::string> cells = {head_name(record.layer, record.head), class_name(record.kind)};
    for (const double value : record.mean.values) cells.push_back(format_value(value));
    table.add(cells);
  }
  return fmt::format("<details><summary>Every head of {}</summary>\n", escape_html(model.name)) +
         table.html() + "</details>\n";
}

std::string task_html(const TaskRecord& task) {
  std::string out = fmt::format(
      "<h3>{}</h3><p class=\"soft small\">{} prompts, {}, {} ablation; a circuit is the smallest set of "
      "heads, largest effect first, that keeps {} of it.</p>\n",
      escape_html(task.task), task.prompts, escape_html(task.metric), escape_html(task.ablation),
      percent(task.threshold));
  HtmlTable table({"model", "#metric, clean", "#corrupt", "#heads needed", "95 % interval", "#of"});
  for (const TaskModel& model : task.models) {
    table.add({model.name, format_value(model.clean), format_value(model.corrupt),
               std::to_string(model.circuit.size()),
               fmt::format("{:.0f} to {:.0f}", model.circuit_interval.low, model.circuit_interval.high),
               std::to_string(model.heads)});
  }
  out += table.html();
  if (task.ratio > 0) {
    out += fmt::format("<p>{:.1f} times fewer heads (95 % interval {:.1f} to {:.1f}).</p>\n", task.ratio,
                       task.ratio_interval.low, task.ratio_interval.high);
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

// Kept edges where texts are short: the share over a long block says little of its first rows.
std::string short_texts_table(const ComparisonRecord& record) {
  std::vector<std::string> headings = {"kept edges"};
  for (const RowRange& range : kRowRanges) headings.push_back(fmt::format("#rows {}", range.name));
  headings.insert(headings.end(), {"#of a prompt", "#heads open on a prompt"});
  HtmlTable table(headings);
  const auto cell = [](const std::optional<double>& share) { return share ? percent(*share) : ""; };
  for (size_t n = 0; n < record.losses.size(); ++n) {
    const Evaluation& loss = record.losses[n];
    std::vector<std::string> cells = {record.models[n]};
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
  if (record.losses.size() == 2) {
    const Evaluation &dense = record.losses[0], &sparse = record.losses[1];
    out += tile("Loss, nats per token", fmt::format("{:.3f}", dense.nats_per_token),
                fmt::format("{:.3f}", sparse.nats_per_token), record.loss_data);
    out += tile("Kept attention edges", percent(dense.kept_edges), percent(sparse.kept_edges),
                "share of all causal pairs of all heads");
    out += tile("Open heads", std::to_string(dense.open_heads), std::to_string(sparse.open_heads),
                "keep more than 0.01 % of their pairs");
    if (dense.prompt_open_heads && sparse.prompt_open_heads) {
      out += tile("Open heads on a prompt", fmt::format("{:.1f}", *dense.prompt_open_heads),
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
  if (record.losses.empty()) return "";
  HtmlTable table({"model", "#nats/token", "95 % interval", "#bits/byte", "#kept edges", "#open heads",
                   "#closed heads", "#tokens", "#documents"});
  for (size_t n = 0; n < record.losses.size(); ++n) {
    const Evaluation& loss = record.losses[n];
    table.add({record.models[n], fmt::format("{:.4f}", loss.nats_per_token),
               fmt::format("{:.4f} to {:.4f}", loss.low, loss.high),
               fmt::format("{:.4f}", loss.bits_per_byte), percent(loss.kept_edges),
               fmt::format("{} of {}", loss.open_heads, loss.head_count()), std::to_string(loss.closed_heads),
               std::to_string(loss.tokens), std::to_string(loss.documents)});
  }
  return fmt::format(
             "<p class=\"soft\">Measured on {}; documents are resampled for the interval, gates are "
             "hard.</p>\n",
             escape_html(record.loss_data)) +
         table.html() + short_texts_table(record);
}

std::string heads_section(const ComparisonRecord& record) {
  if (record.sheets.empty()) return "";
  std::string out = fmt::format(
      "<p class=\"soft\">Every head on one prompt: queries downwards, keys to the right, one cell per pair "
      "of tokens. Point at a cell to read it in both models "
      "(to 1/255); click for a larger view.</p>\n<p class=\"mono small\">{}</p>\n"
      "<div class=\"scale\"><span>0</span><i style=\"background:{}\"></i><span>1</span><span>attention, "
      "shaded by its square root</span></div>\n<div class=\"pair\">\n",
      escape_html(record.prompt), sprite_gradient());
  for (size_t n = 0; n < record.sheets.size(); ++n) out += sheet_html(record.sheets[n], n);
  return out + "</div>\n<div id=\"reading\"><span class=\"soft\">Point at a head.</span></div>\n";
}

std::string statistics_section(const ComparisonRecord& record) {
  const StatisticsReport& report = record.statistics;
  if (report.models.empty()) return "";
  std::string out;
  for (const ModelComparison& comparison : report.comparisons) {
    out += fmt::format(
        "<p class=\"soft\">{} prompts. Each line is tested by flipping the signs of the prompts' differences "
        "(two-sided, 10,000 draws); Holm's correction is over the table.</p>\n",
        comparison.rows.empty() ? 0 : comparison.rows[0].prompts);
    out += comparison_table(comparison);
  }
  out += "<div class=\"pair\">\n";
  for (const NamedFigure& figure : draw_statistics(report)) out += figure_html(figure);
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
  for (const NamedFigure& figure : record.scatter) out += figure_html(figure);
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
  if (record.samples.empty()) return "";
  std::string out = fmt::format("<p class=\"soft\">Generated by {}.</p>\n", escape_html(record.sampling));
  for (const SampleRecord& sample : record.samples) {
    out += "<div class=\"pair\" style=\"margin-bottom:1rem\">\n";
    for (size_t n = 0; n < sample.continuations.size(); ++n) {
      out += fmt::format(
          "<div class=\"sample\"><h4 class=\"{}\">{}</h4><span class=\"given\">{}</span>{}</div>\n", tint(n),
          escape_html(record.models[n]), escape_html(sample.prompt), escape_html(sample.continuations[n]));
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
