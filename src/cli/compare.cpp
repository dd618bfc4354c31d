// openwork compare: everything about a dense model and its sparse twin in one folder with one page.
#include <fmt/format.h>

#include <filesystem>

#include "analyze/heads/model_comparison.h"
#include "base/error.h"
#include "cli/compare_model.h"
#include "cli/compare_task.h"
#include "cli/compare_trace.h"
#include "cli/figure_options.h"
#include "cli/open.h"
#include "cli/verbs.h"
#include "io/model_store.h"
#include "io/safe_files.h"
#include "io/sha256.h"
#include "report/comparison_page.h"

namespace openwork {
namespace {

constexpr const char *kDenseModel = "openwork-8m", *kSparseModel = "openwork-8m-sparse";

nlohmann::json describe(const CompareOptions& options, const GivenPrompts& given, const std::string& device) {
  nlohmann::json protocol = make_protocol(options.common);
  protocol["device"] = device;
  protocol.update(describe_statistics(options.statistics, given));
  protocol["shown_prompt"] = options.prompt;
  protocol["loss"] = {{"on", describe_loss_data(options)}, {"bootstrap", "documents, 2000 draws"}};
  for (const std::string& path : options.data) {
    protocol["data"].push_back(
        {{"file", std::filesystem::path(path).filename().string()}, {"sha256", sha256_of_file(path)}});
  }
  for (const std::string& name : options.models) protocol["models"].push_back(describe_model_files(name));
  return protocol;
}

// What both models' findings make together.
void join_findings(std::vector<ModelFindings>& models, const CompareOptions& options,
                   ComparisonRecord& record) {
  draw::HeadGrid grid;
  draw::ScatterMatrix matrix;
  grid.caption.title = "Every head";
  grid.caption.subtitle = matrix.caption.subtitle = options.prompt;
  matrix.caption.title = "Head against head";
  matrix.caption.note =
      "Attention weights at all causal pairs of tokens. In the upper half: Pearson's correlation, and "
      "Spearman's (ρ).";
  for (ModelFindings& model : models) {
    record.losses.push_back(model.loss);
    record.tokens.push_back(model.tokens);
    record.sheets.push_back(std::move(model.sheet));
    record.statistics.models.push_back(std::move(model.statistics));
    if (model.scatter) matrix.blocks.push_back(std::move(*model.scatter));
    grid.blocks.push_back(std::move(model.block));
  }
  record.statistics.comparisons.push_back(
      {record.models[0], record.models[1],
       compare_statistics(record.statistics.models[0], record.statistics.models[1], options.common.seed)});
  record.head_grid.push_back(
      {"heads", "Every head of both models as a causal heat map.", draw::draw_head_grid(grid)});
  if (!matrix.blocks.empty())
    record.scatter.push_back(
        {"scatter", "Scatter plots of head against head.", draw::draw_scatter_matrix(matrix)});
  for (size_t n = 0; n < sample_openings().size(); ++n) {
    SampleRecord sample{sample_openings()[n], {}};
    for (const ModelFindings& model : models) {
      if (n < model.continuations.size()) sample.continuations.push_back(model.continuations[n]);
    }
    if (sample.continuations.size() == models.size()) record.samples.push_back(std::move(sample));
  }
}

void run_compare(CompareOptions& options) {
  apply_common_options(options.common);
  if (options.models.empty()) options.models = {kDenseModel, kSparseModel};
  if (options.models.size() != 2)
    fail_input("one model", "command line", "name two, DENSE and SPARSE, or none for the built-in pair");
  // What can be found out before the work is, not after it.
  check_models(options.models);
  if (options.prompt.empty()) fail_input("the prompt is empty", "--prompt", "give at least one token");
  TaskComparison tasks(options);
  TraceComparison traces(options);
  make_folder(options.out);
  options.statistics.seed = options.common.seed;
  options.statistics.interactions = !options.no_interactions;
  std::vector<std::string> models = options.models;
  const GivenPrompts given = take_prompts(models, {options.prompts, "", ""});

  ComparisonRecord record;
  std::vector<ModelFindings> findings;
  for (const std::string& name : options.models) {
    record.models.push_back(short_name(name));
    const Transformer model = open_model(name, options.common);
    findings.push_back(
        look_at_model(model, name, options, given,
                      findings.empty() ? std::vector<HeadPlace>{} : findings[0].scatter_heads));
    tasks.add_model(model, name);
    traces.add_model(model, name);
  }
  record.prompt = options.prompt;
  record.loss_data = describe_loss_data(options);
  record.sampling =
      "sampling at temperature 0.7 among the 40 most likely tokens, the same random numbers for both";
  record.protocol = describe(options, given, findings[0].device);
  record.protocol["tasks"] = tasks.describe();
  join_findings(findings, options, record);
  record.tasks = tasks.finish();
  record.trace = traces.finish(record.protocol);

  const size_t bytes = write_comparison(record, options.out);
  for (const std::string& finding : list_findings(record)) print_result(options.common, finding);
  print_result(options.common, fmt::format("wrote {} ({:.1f} MB)",
                                           (std::filesystem::path(options.out) / "index.html").string(),
                                           static_cast<double>(bytes) / 1e6));
  write_json_result(options.common, to_json(record));
}

}  // namespace

void add_compare_verb(CLI::App& app) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App* verb = app.add_subcommand("compare",
                                      "a dense model beside its sparse twin: one page with heads, "
                                      "statistics, circuits, a traced prompt, text");
  verb->add_option("MODEL", options->models, "DENSE SPARSE (default: the built-in pair)")
      ->type_name("")
      ->expected(0, 2);
  verb->add_option("--out", options->out, "folder for index.html, figures/ and comparison.json")
      ->type_name("DIR")
      ->capture_default_str();
  verb->add_option("--prompt", options->prompt, "the text whose heads are shown")
      ->type_name("TEXT")
      ->capture_default_str();
  verb->add_option("--prompts", options->prompts,
                   "prompts of the statistics: a file with one per line, JSONL, or sample")
      ->type_name("FILE")
      ->capture_default_str();
  verb->add_option("--data", options->data, "held-out text for the losses (default: the prompts)")
      ->expected(1, 4096)
      ->type_name("FILE...");
  verb->add_option("--context", options->context,
                   "tokens per block of --data (default: the model's, at most 512)")
      ->check(between(1, 1 << 24))
      ->type_name("N");
  verb->add_option("--blocks", options->blocks, "at most N blocks of --data")
      ->check(between(1, 1 << 30))
      ->type_name("N");
  verb->add_option("--task", options->tasks,
                   "tasks for ablation and circuits (default: copy; none: leave out)")
      ->expected(1, 64)
      ->type_name("TASK...");
  verb->add_option("--task-prompts", options->task_prompts, "prompts per task (default: 24)")
      ->check(between(1, 1 << 20))
      ->type_name("N");
  verb->add_option("--generate", options->generate, "tokens of each text sample; 0: none")
      ->check(between(0, 100000))
      ->type_name("N")
      ->capture_default_str();
  verb->add_option("--max-heads", options->most_heads, "most heads of a model on the page, in whole layers")
      ->check(between(1, 1 << 20))
      ->type_name("N")
      ->capture_default_str();
  verb->add_flag("--no-interactions", options->no_interactions,
                 "leave out interacting pairs, the slow part of large models");
  verb->add_flag("--no-trace", options->no_trace, "leave out the prompt's trace from tokens to its answer");
  add_common_options(*verb, options->common);
  verb->footer(
      "The page needs no network and no other file. docs/compare.md says what is on it.\n"
      "Examples:\n"
      "  openwork compare\n"
      "  openwork compare smollm2-135m smollm2-135m-sparse --data held_out.txt --blocks 100 --out smollm2\n"
      "  openwork compare dense/ sparse/ --prompt \"The opposite of 'large' is '\" --task copy ioi");
  verb->callback([options] { run_compare(*options); });
}

}  // namespace openwork
