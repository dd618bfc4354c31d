#include "cli/eval_suite.h"

#include <fmt/format.h>

#include "analyze/capability/suite.h"
#include "analyze/capability/suite_source.h"
#include "analyze/capability/suite_sweep.h"
#include "base/error.h"
#include "report/captions.h"
#include "report/suite_figure.h"
#include "report/suite_json.h"
#include "report/suite_text.h"
#include "shell/figure_options.h"
#include "shell/open.h"
#include "shell/ranks.h"
#include "shell/task_options.h"

namespace openwork {
namespace {

constexpr int64_t kMostContext = 1024;  // unless more is asked for

// One context for all models, so that they are asked the same.
int64_t settle_context(const std::vector<std::string>& models, int64_t asked) {
  int64_t context = asked > 0 ? asked : kMostContext;
  for (const std::string& name : models) {
    const int64_t has = read_config_of(name).context;
    if (asked > has)
      fail_input(fmt::format("--context {}", asked), name, fmt::format("the model's context is {}", has));
    context = std::min(context, has);
  }
  return context;
}

nlohmann::json start_suite_protocol(const CommonOptions& common, const std::vector<std::string>& models,
                                    const std::vector<std::string>& data, int64_t context,
                                    const SuiteVerbOptions& options) {
  nlohmann::json protocol = make_protocol(common);
  protocol.update({{"models", describe_models(models)},
                   {"data", describe_data_files(data)},
                   {"context", context},
                   {"prompts", options.prompts},
                   {"tests", options.tests.empty() ? "all" : options.tests},
                   {"gates", "hard"},
                   {"intervals", "95 %: Wilson where scores are 0 or 1, else prompts, 1000 draws"},
                   {"p", "sign flips over prompts, 10000 draws; Holm over all rows"}});
  return protocol;
}

struct SuiteRun {
  const CommonOptions& common;
  const std::vector<std::string>& data;
  const SuiteVerbOptions& options;
  int64_t context;
  Sweep& sweep;
};

SuiteModel examine_capability(const SuiteRun& run, const std::string& name, std::string& device) {
  const Transformer model = open_model(name, run.common);
  device = model.device().str();
  const std::optional<Tokenizer> tokenizer = find_tokenizer(name);
  SuiteSource source;
  source.vocabulary = open_vocabulary(model.config(), tokenizer, run.common);
  source.context = run.context, source.prompts = run.options.prompts, source.seed = run.common.seed;
  read_suite_data(source, run.data, tokenizer ? end_of_text(*tokenizer, model.config()) : 0, name);
  return sweep_suite(model, name, source, choose_suite_tests(split_names(run.options.tests)), run.sweep);
}

// Tests that a model or the text does not allow are left out of the table; all of them make no table.
void refuse_no_result(const std::vector<SuiteModel>& models) {
  for (const SuiteModel& model : models)
    for (const SuiteTestResult& test : model.tests)
      if (test.left_out.empty()) return;
  const SuiteTestResult& first = models.front().tests.front();
  fail_input(fmt::format("no test could be run: {}", first.left_out), "test " + first.name,
             "name other --tests, or give --data FILE");
}

void report_suite(const SuiteRun& run, const std::vector<SuiteModel>& models,
                  const nlohmann::json& protocol) {
  refuse_no_result(models);
  const std::vector<SuiteDifference> differences = compare_suites(models, run.common.seed);
  print_results(run.common, format_suite(models, differences));
  nlohmann::json result = {
      {"models", nlohmann::json::array()}, {"comparison", nlohmann::json::array()}, {"protocol", protocol}};
  for (const SuiteModel& model : models) result["models"].push_back(to_json(model));
  for (const SuiteDifference& row : differences) result["comparison"].push_back(to_json(row));
  if (!run.options.out.empty() && run.common.speaks) {
    draw::write_figure(draw_suite(models, describe_protocol(protocol)), run.options.out);
    print_written(run.common, run.options.out);
  }
  write_json_result(run.common, result);
}

}  // namespace

void add_suite_options(CLI::App& verb, SuiteVerbOptions& options) {
  verb.add_option("--tests", options.tests, "with --suite: only these, e.g. copy,last-word,loss")
      ->check(names_something())
      ->type_name("NAME,...");
  verb.add_option("--prompts", options.prompts, "with --suite: prompts of each test and bin (64)")
      ->check(between(1, 1 << 20))
      ->type_name("N");
  verb.add_option("--out", options.out, "with --suite: the figure, .svg, .pdf or .png")->type_name("FILE");
}

void run_eval_suite(CommonOptions& common, const std::vector<std::string>& models,
                    const std::vector<std::string>& data, int64_t context, const SuiteVerbOptions& given) {
  SuiteVerbOptions options = given;
  if (options.prompts == 0) options.prompts = kSuitePrompts;
  choose_suite_tests(split_names(options.tests));  // refuses unknown names before any work
  if (!options.out.empty()) check_figure_output({options.out});
  const int64_t settled = settle_context(models, context);
  nlohmann::json protocol = start_suite_protocol(common, models, data, settled, options);
  const std::shared_ptr<Ranks> ranks = join_ranks(common);
  KeptSweep kept("", common, protocol, *ranks);
  kept.guard([&] {
    const SuiteRun run{common, data, options, settled, kept.sweep()};
    std::vector<SuiteModel> results;
    std::string device;
    for (const std::string& name : models) results.push_back(examine_capability(run, name, device));
    protocol["device"] = device;
    protocol["ranks"] = ranks->count();
    report_suite(run, results, protocol);
    kept.sweep().finish();
  });
}

}  // namespace openwork
