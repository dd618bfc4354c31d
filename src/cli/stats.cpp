// openwork stats: every statistic, class and redundancy group of each model's heads, and the table between
// models.
#include <optional>

#include "analyze/heads/head_statistics.h"
#include "analyze/heads/model_comparison.h"
#include "base/progress.h"
#include "cli/verbs.h"
#include "io/atomic_file.h"
#include "io/safe_files.h"
#include "report/statistics_figures.h"
#include "report/statistics_tables.h"
#include "report/statistics_text.h"
#include "shell/common.h"
#include "shell/open.h"
#include "shell/prompt_source.h"

namespace openwork {
namespace {

struct StatsOptions {
  CommonOptions common;
  std::vector<std::string> arguments;
  PromptSourceOptions source;
  StatisticsOptions statistics;
  bool no_interactions = false;
  std::string csv, markdown, out;
};

ModelStatistics measure_model(const std::string& name, const GivenPrompts& given, const StatsOptions& options,
                              std::string& device) {
  const Transformer model = open_model(name, options.common);
  device = model.device().str();
  const TokenPrompts prompts = tokenise_prompts(given, name, model.config(), options.common);
  StatisticsOptions statistics = options.statistics;
  statistics.beginning = prompts.beginning;
  if (prompts.tokenizer)
    statistics.random_from = ordinary_tokens(*prompts.tokenizer, model.config().vocabulary);
  Progress progress("stats " + name, prompts.ids.size(), " prompts");
  ModelStatistics result = measure_heads(model, prompts.ids, statistics, [&] { progress.advance(1); });
  result.name = name;
  return result;
}

void write_results(const StatsOptions& options, const StatisticsReport& report, const nlohmann::json& prompts,
                   const std::string& device) {
  nlohmann::json result = to_json(report);
  result["protocol"] = make_protocol(options.common);
  result["protocol"]["device"] = device;
  result["protocol"].update(describe_statistics(options.statistics, prompts));
  result["protocol"]["models"] = describe_models(options.arguments);
  write_json_result(options.common, result);
  if (!options.csv.empty()) write_text_file(options.csv, make_csv(report));
  if (!options.markdown.empty()) write_text_file(options.markdown, make_markdown(report));
  if (!options.out.empty()) write_statistics(report, result, options.out);
  for (const std::string& path : {options.csv, options.markdown, options.out})
    if (!path.empty()) print_written(options.common, path);
}

void run_stats(StatsOptions& options) {
  apply_common_options(options.common);
  const GivenPrompts given = take_prompts(options.arguments, options.source);
  check_models(options.arguments, options.source.option());
  std::optional<FolderLock> lock;  // found out before the work, not after it
  if (!options.out.empty()) lock.emplace(options.out, FolderLock::IfHeld::kRefuse);
  options.statistics.seed = options.common.seed;
  options.statistics.interactions = !options.no_interactions;
  StatisticsReport report;
  std::string device;
  for (const std::string& name : options.arguments) {
    add_model(report, measure_model(name, given, options, device), options.common.seed);
    print_results(options.common, format_statistics(report.models.back()));
  }
  for (const ModelComparison& comparison : report.comparisons)
    print_results(options.common, format_comparison(comparison));
  if (options.common.json.empty() && options.csv.empty() && options.markdown.empty() && options.out.empty())
    return;
  write_results(options, report, given.description, device);
}

}  // namespace

void add_stats_verb(CLI::App& app) {
  auto options = std::make_shared<StatsOptions>();
  CLI::App* verb = add_verb(app, "stats");
  verb->add_option("MODEL", options->arguments,
                   "one or more models, and then the prompt unless an option gives it")
      ->type_name("... [PROMPT]")
      ->required()
      ->expected(1, 64);
  add_prompt_source_options(*verb, options->source);
  verb->add_option("--csv", options->csv, "one row per head")->type_name("FILE");
  verb->add_option("--markdown", options->markdown, "tables to read")->type_name("FILE");
  verb->add_option("--out", options->out, "folder for all of it, with the figures as SVG and PNG")
      ->type_name("DIR");
  verb->add_option("--repeat", options->statistics.repeat_length,
                   "random tokens that are repeated, for induction")
      ->type_name("S")
      ->check(between(2, 1 << 20))
      ->capture_default_str();
  verb->add_option("--redundancy", options->statistics.redundancy_level,
                   "correlation from which two heads are alike")
      ->type_name("R")
      ->check(between(0.0, 1.0))
      ->capture_default_str();
  verb->add_option("--interaction", options->statistics.interaction_level,
                   "share from which two heads interact strongly")
      ->type_name("X")
      ->check(between(0.0, 1e9))
      ->capture_default_str();
  verb->add_flag("--no-interactions", options->no_interactions,
                 "leave out interacting pairs, the slow part of large models")
      ->excludes("--interaction");
  add_common_options(*verb, options->common);
  verb->footer(
      "The first model is compared with each of the others. docs/statistics.md has every definition.\n"
      "Examples:\n"
      "  openwork stats openwork-8m --prompts sample\n"
      "  openwork stats openwork-8m openwork-8m-sparse --prompts sample --out statistics\n"
      "  openwork stats openwork-8m \"When Mary and John went to the store, John gave a drink to\" --csv "
      "heads.csv");
  verb->callback([options] { run_stats(*options); });
}

}  // namespace openwork
