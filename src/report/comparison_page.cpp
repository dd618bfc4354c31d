#include "report/comparison_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "analyze/heads/head_classes.h"
#include "base/number_text.h"
#include "io/atomic_file.h"
#include "io/interval_json.h"
#include "io/safe_files.h"
#include "report/captions.h"
#include "report/comparison_figures.h"
#include "report/comparison_sections.h"
#include "report/head_sprites.h"
#include "report/statistics_tables.h"
#include "report/suite_json.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

constexpr double kCertain = 0.05;  // a change is called one at this corrected p or below

std::string names_of(const std::vector<const HeadRecord*>& heads) {
  std::vector<std::string> names;
  for (const HeadRecord* head : heads) names.push_back(head->place.name());
  return fmt::format("{}", fmt::join(names, ", "));
}

// "3.281 nats per token against 3.270 (+0.011)"; of two tokenizers, whose tokens are not alike, bits per byte.
std::string compare_losses(const ComparedModel& first, const ComparedModel& other) {
  const bool alike = first.vocabulary == other.vocabulary;
  const double before = alike ? first.loss.nats_per_token : first.loss.bits_per_byte,
               after = alike ? other.loss.nats_per_token : other.loss.bits_per_byte;
  return fmt::format("{:.3f} {} against {:.3f} ({:+.3f}{})", after,
                     alike ? "nats per token" : "bits per byte", before, after - before,
                     alike ? "" : "; their tokenizers differ");
}

// Each model against the first.
void add_loss_findings(const ComparisonRecord& record, std::vector<std::string>& out) {
  const std::vector<ComparedModel>& models = record.compared.models;
  for (size_t n = 1; n < models.size(); ++n) {
    const Evaluation& sparse = models[n].loss;
    out.push_back(fmt::format("{} keeps {:.3g} % of {}'s attention edges; its loss is {}, on {}.",
                              models[n].name, 100 * sparse.kept_edges, models[0].name,
                              compare_losses(models[0], models[n]), record.loss_data));
    out.push_back(fmt::format("{} of its {} heads are open there, {} never open.", sparse.open_heads,
                              sparse.head_count(), sparse.closed_heads));
    if (sparse.prompt_kept_edges && sparse.prompt_open_heads) {
      out.push_back(fmt::format(
          "On a prompt of a few dozen tokens it keeps {:.3g} % of the edges, in {:.1f} of its {} heads.",
          100 * *sparse.prompt_kept_edges, *sparse.prompt_open_heads, sparse.head_count()));
    }
  }
}

void add_statistics_findings(const StatisticsReport& report, std::vector<std::string>& out) {
  for (const ModelComparison& comparison : report.comparisons) {
    std::vector<std::string> changes;
    for (const ComparisonRow& row : comparison.rows) {
      if (row.p_corrected <= kCertain)
        changes.push_back(
            fmt::format("{} {} to {}", row.title, format_value(row.dense), format_value(row.sparse)));
    }
    const std::string prompts = describe_lengths(report.models[0].prompt_tokens);
    out.push_back(
        changes.empty()
            ? fmt::format("No statistic differs certainly (p <= {}, Holm) on {}.", kCertain, prompts)
            : fmt::format("Changed on {} (p <= {}, Holm): {}.", prompts, kCertain, fmt::join(changes, "; ")));
  }
  for (const ModelStatistics& model : report.models) {
    std::vector<const HeadRecord*> induction = leading_heads(model, Statistic::kInduction, 4);
    std::erase_if(induction, [](const HeadRecord* head) { return head->kind != HeadClass::kInduction; });
    out.push_back(fmt::format("{}: {} at a pattern correlation of {}{}{}.", model.name,
                              count_of(model.redundancy.distinct, "distinct head"), model.redundancy.level,
                              induction.empty() ? "" : "; induction in ", names_of(induction)));
  }
}

void add_task_findings(const std::vector<TaskRecord>& tasks, std::vector<std::string>& out) {
  for (const TaskRecord& task : tasks) {
    std::vector<std::string> sizes;
    for (const TaskModel& model : task.models)
      sizes.push_back(fmt::format("{} of {} heads in {}", model.circuit.size(), model.heads, model.name));
    out.push_back(fmt::format("{}: {} % of the effect needs {}.", task.task, 100 * task.threshold,
                              fmt::join(sizes, ", ")));
  }
}

void add_trace_findings(const ComparisonRecord& record, std::vector<std::string>& out) {
  if (!record.trace) return;
  std::vector<std::string> counts;
  for (const TracedModelRecord& model : record.trace->models)
    counts.push_back(fmt::format("{} of {} heads in {}", model.heads_needed, model.heads, model.name));
  out.push_back(fmt::format("One prompt: {:g} % of what moves from {} to {} needs {}.{}{}",
                            100 * record.trace->share, record.trace->from, record.trace->to,
                            fmt::join(counts, ", "), record.trace->answers.empty() ? "" : " ",
                            record.trace->answers));
}

nlohmann::json to_json(const ModelCost& cost) {
  return {{"heads", cost.heads},
          {"kept_heads", cost.kept_heads},
          {"parameters", cost.parameters},
          {"weights_mb", cost.weight_megabytes},
          {"prompt_tokens", cost.prompt_tokens},
          {"prompt_tokens_per_second", cost.prompt_speed},
          {"generated_tokens", cost.generated_tokens},
          {"generated_tokens_per_second", cost.generation_speed}};
}

nlohmann::json to_json(const TaskRecord& task) {
  nlohmann::json models = nlohmann::json::array();
  for (const TaskModel& model : task.models) {
    models.push_back({{"name", model.name},
                      {"clean_metric", model.clean},
                      {"corrupt_metric", model.corrupt},
                      {"effects", model.effects},
                      {"circuit", model.circuit},
                      {"heads_at_threshold", model.circuit.size()},
                      {"interval", interval_json(model.circuit_interval)},
                      {"faithfulness", model.faithfulness}});
  }
  return {{"task", task.task},         {"metric", task.metric},
          {"ablation", task.ablation}, {"threshold", task.threshold},
          {"prompts", task.prompts},   {"models", models},
          {"ratio", task.ratio},       {"ratio_interval", interval_json(task.ratio_interval)}};
}

// The shown prompt's tokens, by model.
std::vector<std::vector<std::string>> mark_prompts(const Comparison& comparison) {
  std::vector<std::vector<std::string>> marks;
  for (const ComparedModel& model : comparison.models) marks.push_back(mark_tokens(model.heads.pieces));
  return marks;
}

// Where the viewer stands; the rest of the page can be read without it.
std::string viewer_section(const ComparisonRecord& record) {
  if (record.viewer.is_null() || !has_viewer()) return "";
  return "<div id=\"app\"><p>The viewer over this page's records needs its script.</p></div>\n";
}

std::vector<NamedFigure> draw_all(const ComparisonRecord& record) {
  std::vector<NamedFigure> figures =
      draw_statistics(record.compared.statistics, describe_protocol(record.protocol));
  const auto add = [&](const std::vector<NamedFigure>& more) {
    figures.insert(figures.end(), more.begin(), more.end());
  };
  add(draw_compared_heads(record));
  add(draw_compared_scatter(record));
  for (const TaskRecord& task : record.tasks) add(task.figures);
  if (record.trace) add(record.trace->figures);
  return figures;
}

}  // namespace

std::vector<std::string> list_findings(const ComparisonRecord& record) {
  std::vector<std::string> findings;
  add_loss_findings(record, findings);
  add_task_findings(record.tasks, findings);
  add_trace_findings(record, findings);
  add_statistics_findings(record.compared.statistics, findings);
  return findings;
}

nlohmann::json to_json(const ComparisonRecord& record) {
  nlohmann::json result = to_json(record.compared.statistics), losses = nlohmann::json::array(),
                 tasks = nlohmann::json::array(), samples = nlohmann::json::array();
  nlohmann::json costs = nlohmann::json::array(), capabilities = nlohmann::json::array();
  for (const ComparedModel& model : record.compared.models) {
    losses.push_back(to_json(model.loss));
    losses.back()["name"] = model.name;
    costs.push_back(to_json(model.cost));
    costs.back()["name"] = model.name;
    capabilities.push_back(to_json(model.capability));
  }
  for (const TaskRecord& task : record.tasks) tasks.push_back(to_json(task));
  for (const Sample& sample : list_samples(record.compared))
    samples.push_back({{"prompt", sample.opening}, {"continuations", sample.continuations}});
  result.update({{"findings", list_findings(record)},
                 {"prompt", record.prompt},
                 {"tokens", mark_prompts(record.compared)},
                 {"losses", losses},
                 {"costs", costs},
                 {"capabilities", capabilities},
                 {"tasks", tasks},
                 {"trace", record.trace ? record.trace->json : nlohmann::json()},
                 {"samples", samples},
                 {"protocol", record.protocol}});
  return result;
}

Page make_comparison_page(const ComparisonRecord& record) {
  Page page;
  std::vector<std::string> names;
  for (const ComparedModel& model : record.compared.models) names.push_back(model.name);
  page.title = fmt::format("{}", fmt::join(names, " beside "));
  page.lead =
      "What attention does in a dense model and in its sparse twin: heads, statistics, circuits, one "
      "prompt traced, text.";
  const std::vector<std::string> findings = list_findings(record);
  const std::vector<PageSection> sections = {
      {"found", "What was found", summary_section(record, findings)},
      {"viewer", "Look for yourself", viewer_section(record)},
      {"models", "Models", loss_section(record)},
      {"cost", "Cost and capability", cost_section(record)},
      {"heads", "Heads", heads_section(record)},
      {"statistics", "Statistics", statistics_section(record)},
      {"scatter", "Scatter", scatter_section(record)},
      {"circuits", "Ablation and circuits", tasks_section(record)},
      {"trace", "One prompt traced", trace_section(record)},
      {"text", "Text", samples_section(record)},
      {"protocol", "Protocol", protocol_section(record)},
  };
  for (const PageSection& section : sections) {
    if (!section.html.empty()) page.sections.push_back(section);
  }
  page.style = heads_style(record);
  page.data = {{"palette", sprite_palette()}, {"tokens", mark_prompts(record.compared)}, {"models", names}};
  page.viewer = record.viewer;
  page.footer =
      fmt::format("Made by {}. Figures and numbers lie beside this page: figures/, comparison.json.",
                  record.protocol.value("program", "openwork"));
  return page;
}

size_t write_comparison(const ComparisonRecord& record, const fs::path& folder) {
  make_folder(folder);
  write_figures(draw_all(record), folder / "figures");
  write_text_file(folder / "comparison.json",
                  to_json(record).dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  const std::string html = render_page(make_comparison_page(record));
  write_text_file(folder / "index.html", html);
  return html.size();
}

}  // namespace openwork
