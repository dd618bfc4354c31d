// openwork compare: everything about a dense model and its sparse twins in one folder with one page.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/number_text.h"
#include "base/progress.h"
#include "cli/verbs.h"
#include "io/safe_files.h"
#include "report/captions.h"
#include "report/compare_tasks.h"
#include "report/compare_traces.h"
#include "report/comparison_page.h"
#include "report/statistics_tables.h"
#include "serve/model_backend.h"
#include "serve/page_data.h"
#include "shell/open.h"
#include "shell/prompt_source.h"
#include "shell/version.h"

namespace openwork {
namespace {

constexpr const char *kDenseModel = "openwork-8m", *kSparseModel = "openwork-8m-sparse";

// What `compare` is asked for.
struct CompareOptions {
  CommonOptions common;
  std::vector<std::string> models, tasks;
  LossData data;
  std::string prompt = "When Mary and John went to the store, John gave a drink to";
  std::string prompts = "sample", out = "report";
  int64_t task_prompts = 0;
  ComparisonSettings settings;
  bool no_interactions = false, no_trace = false, no_viewer = false;
};

// What the losses were measured on, in words.
std::string describe_loss_data(const CompareOptions& options) {
  if (options.data.files.empty())
    return options.prompts == "sample" ? "the built-in prompts" : "the prompts given";
  std::vector<std::string> names;
  for (const std::string& file : options.data.files)
    names.push_back(std::filesystem::path(file).filename().string());
  return fmt::format("{}", fmt::join(names, ", ")) +
         (options.data.blocks > 0 ? ", " + count_of(options.data.blocks, "block") : "");
}

nlohmann::json describe(const CompareOptions& options, const GivenPrompts& given, const std::string& device) {
  nlohmann::json protocol = make_protocol(options.common);
  protocol["device"] = device;
  protocol.update(describe_statistics(options.settings.statistics, given.description));
  protocol["shown_prompt"] = options.prompt;
  protocol["loss"] = {{"on", describe_loss_data(options)}, {"bootstrap", "documents, 2000 draws"}};
  if (!options.data.files.empty()) protocol["data"] = describe_data_files(options.data.files);
  protocol["models"] = describe_models(options.models);
  return protocol;
}

// What is found out of all models together.
struct Findings {
  Comparison& compared;
  TaskComparison& tasks;
  TraceComparison& traces;
};

// Everything in the model's own tokens, and then the model looked at.
void look_at_model(const CompareOptions& options, const GivenPrompts& given, const Transformer& model,
                   const std::string& name, const std::string& title, const Findings& findings) {
  const ModelConfig& config = model.config();
  TokenPrompts prompts = tokenise_prompts(given, name, config, options.common);
  TokenPrompts shown = tokenise_prompts(give_text(options.prompt), name, config, options.common);
  const Tokenizer& tokenizer = *prompts.tokenizer;
  ComparedText text{.tokenizer = &tokenizer,
                    .beginning = prompts.beginning,
                    .copy_begins = options.common.bos != "no",
                    .prompts = std::move(prompts.ids),
                    .shown = shown.ids.front(),
                    .held_out = read_loss_blocks(options.data, given.texts, tokenizer,
                                                 end_of_text(tokenizer, config), config)};
  add_model(findings.compared, model, title, text, options.settings);
  findings.tasks.add_model(model, title,
                           make_vocabulary(config, &tokenizer, prompts.beginning, text.copy_begins));
  findings.traces.add_model(model, name, title, std::move(shown));
}

// The model as the viewer knows it.
TracedModel keep_for_viewer(const CompareOptions& options, const Transformer& model, const std::string& name,
                            const std::string& title) {
  TracedModel kept = attach_transcoders(model, title, title);
  kept.tokenizer = open_tokenizer(name);
  kept.beginning = beginning_tokens(*kept.tokenizer, options.common);
  kept.copy_begins = options.common.bos != "no";
  return kept;
}

// What the viewer in the page reads: what was found out, and what it asks besides.
nlohmann::json record_viewer(const CompareOptions& options, std::vector<TracedModel> models,
                             const ComparisonRecord& record, const TaskComparison& tasks,
                             const TraceComparison& traces) {
  if (models.empty()) return nullptr;
  nlohmann::json statistics = to_json(record.compared.statistics);
  statistics["prompt"] = nullptr;
  std::vector<serve::KnownAnswer> known = {{"statistics", nlohmann::json::object(), statistics}};
  for (const nlohmann::json& answer : tasks.answers())
    known.push_back({"circuit", {{"task", answer["task"]}}, answer});
  if (nlohmann::json answer = traces.answer(); !answer.is_null())
    known.push_back({"trace", {{"prompt", options.prompt}}, std::move(answer)});
  serve::ModelBackend backend(std::move(models));
  const serve::ServiceSettings settings{.program = fmt::format("openwork {}", kVersion),
                                        .prompt = options.prompt};
  note("records of the page's viewer");
  return serve::record_page(backend, settings, known);
}

// What can be found out before the work is, not after it.
void settle_options(CompareOptions& options, const CLI::App& verb) {
  if (options.models.empty()) options.models = {kDenseModel, kSparseModel};
  if (options.models.size() < 2)
    fail_input("one model", "command line",
               "name two or more, the dense one first, or none for the built-in pair");
  check_models(options.models);
  if (options.data.files.empty())
    refuse_options(verb, {"--context", "--blocks"}, "without --data", "add it, or leave it out");
  if (options.prompt.empty()) fail_input("the prompt is empty", "--prompt", "give at least one token");
  options.settings.seed = options.settings.statistics.seed = options.common.seed;
  options.settings.statistics.interactions = !options.no_interactions;
}

void run_compare(CompareOptions& options, const CLI::App& verb) {
  apply_common_options(options.common);
  settle_options(options, verb);
  TaskComparison tasks(options.tasks, options.task_prompts, options.common.seed);
  TraceComparison traces(options.prompt, options.models, !options.no_trace, options.common.dtype == "fp32");
  const FolderLock lock(options.out, FolderLock::IfHeld::kRefuse);
  const GivenPrompts given = give_file(options.prompts);

  ComparisonRecord record;
  std::string device;               // of the first model
  std::vector<TracedModel> viewed;  // all of them, where the page has a viewer
  const std::vector<std::string> titles = short_names(options.models);
  for (size_t n = 0; n < titles.size(); ++n) {
    const std::string& name = options.models[n];
    const Transformer model = open_model(name, options.common);
    if (device.empty()) device = model.device().str();
    look_at_model(options, given, model, name, titles[n], {record.compared, tasks, traces});
    if (!options.no_viewer && has_viewer())
      viewed.push_back(keep_for_viewer(options, model, name, titles[n]));
  }
  record.prompt = options.prompt;
  record.loss_data = describe_loss_data(options);
  record.protocol = describe(options, given, device);
  record.protocol["tasks"] = tasks.describe();
  record.tasks = tasks.finish(record.protocol);
  record.trace = traces.finish(record.protocol);
  record.viewer = record_viewer(options, std::move(viewed), record, tasks, traces);

  const size_t bytes = write_comparison(record, options.out);
  print_results(options.common, list_findings(record));
  print_result(options.common, fmt::format("wrote {} ({:.1f} MB)",
                                           (std::filesystem::path(options.out) / "index.html").string(),
                                           static_cast<double>(bytes) / 1e6));
  write_json_result(options.common, to_json(record));
}

}  // namespace

void add_compare_verb(CLI::App& app) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App* verb = add_verb(app, "compare");
  verb->add_option("MODEL", options->models,
                   "two or more, each compared with the first: DENSE SPARSE ... (default: the built-in pair)")
      ->type_name("")
      ->expected(0, 16);
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
  verb->add_option("--data", options->data.files, "held-out text for the losses (default: the prompts)")
      ->expected(1, 4096)
      ->type_name("FILE...");
  verb->add_option("--context", options->data.context,
                   "tokens per block of --data (default: the model's, at most 512)")
      ->check(between(1, 1 << 24))
      ->type_name("N");
  verb->add_option("--blocks", options->data.blocks, "at most N blocks of --data")
      ->check(between(1, 1 << 30))
      ->type_name("N");
  verb->add_option("--task", options->tasks,
                   "tasks for ablation and circuits (default: copy; none: leave out)")
      ->expected(1, 64)
      ->type_name("TASK...");
  verb->add_option("--task-prompts", options->task_prompts, "prompts per task (default: 24)")
      ->check(between(1, 1 << 20))
      ->type_name("N");
  verb->add_option("--capability", options->settings.capability,
                   "prompts of each test of what a model can do; 0: none")
      ->check(between(0, 10000))
      ->type_name("N")
      ->capture_default_str();
  verb->add_option("--generate", options->settings.generate, "tokens of each text sample; 0: none")
      ->check(between(0, 100000))
      ->type_name("N")
      ->capture_default_str();
  verb->add_option("--max-heads", options->settings.most_heads,
                   "most heads of a model on the page, in whole layers")
      ->check(between(1, 1 << 20))
      ->type_name("N")
      ->capture_default_str();
  verb->add_flag("--no-interactions", options->no_interactions,
                 "leave out interacting pairs, the slow part of large models");
  verb->add_flag("--no-trace", options->no_trace, "leave out the prompt's trace from tokens to its answer");
  verb->add_flag("--no-viewer", options->no_viewer,
                 "leave the viewer out of the page; models are then in memory one at a time");
  add_common_options(*verb, options->common);
  verb->footer(
      "The page needs no network and no other file. docs/compare.md says what is on it.\n"
      "Examples:\n"
      "  openwork compare\n"
      "  openwork compare smollm2-135m smollm2-135m-sparse --data held_out.txt --blocks 100 --out smollm2\n"
      "  openwork compare dense/ sparse/ --prompt \"The opposite of 'large' is '\" --task copy ioi");
  verb->callback([options, verb] { run_compare(*options, *verb); });
}

}  // namespace openwork
