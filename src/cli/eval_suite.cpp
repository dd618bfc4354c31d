#include "cli/eval_suite.h"

#include <fmt/format.h>

#include "analyze/capability/suite.h"
#include "analyze/capability/suite_source.h"
#include "base/error.h"
#include "base/interval_text.h"
#include "base/progress.h"
#include "cli/figure_options.h"
#include "cli/open.h"
#include "cli/ranks.h"
#include "cli/task_options.h"
#include "io/model_store.h"
#include "io/sha256.h"
#include "model/load.h"
#include "report/suite_figure.h"
#include "report/suite_json.h"

namespace openwork {
namespace {

constexpr int64_t kMostContext = 1024;  // unless more is asked for

// One context for all models, so that they are asked the same.
int64_t settle_context(const std::vector<std::string>& models, int64_t asked) {
  int64_t context = asked > 0 ? asked : kMostContext;
  for (const std::string& name : models) {
    const int64_t has = load_config(locate_model(name).path).context;
    if (asked > has)
      fail_input(fmt::format("--context {}", asked), name, fmt::format("the model's context is {}", has));
    context = std::min(context, has);
  }
  return context;
}

nlohmann::json start_suite_protocol(const CommonOptions& common, const std::vector<std::string>& models,
                                    const std::vector<std::string>& data, int64_t context,
                                    const SuiteVerbOptions& options) {
  nlohmann::json protocol = make_protocol(common), files = nlohmann::json::array(), texts = files;
  for (const std::string& name : models) files.push_back(describe_model_files(name));
  for (const std::string& path : data)
    texts.push_back(
        {{"file", std::filesystem::path(path).filename().string()}, {"sha256", sha256_of_file(path)}});
  protocol.update({{"models", files},
                   {"data", texts},
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
  std::optional<Tokenizer> tokenizer;
  try {
    tokenizer = open_tokenizer(name);
  } catch (const Error&) {
    tokenizer.reset();  // copying needs none; the others are left out
  }
  SuiteSource source;
  source.vocabulary = make_vocabulary(
      model.config(), tokenizer ? &*tokenizer : nullptr,
      tokenizer ? beginning_tokens(*tokenizer, run.common) : std::vector<int64_t>{}, run.common.bos != "no");
  source.context = run.context, source.prompts = run.options.prompts, source.seed = run.common.seed;
  read_suite_data(source, run.data, tokenizer ? end_of_text(*tokenizer, model.config()) : 0, name);
  std::optional<Progress> progress;
  SuiteOptions options;
  options.ranks = run.sweep.ranks();
  options.begin = [&](const std::string& test, int64_t prompts) {
    progress.emplace(fmt::format("suite {}: {}", name, test), static_cast<uint64_t>(prompts), " prompts");
  };
  options.advance = [&](int64_t prompts) { progress->advance(static_cast<uint64_t>(prompts)); };
  options.after_pass = [&] { run.sweep.stop_where_asked(); };
  run.sweep.scope = name + "/";
  options.memory.find = [&](const std::string& bin) { return run.sweep.find(bin); };
  options.memory.add = [&](const std::string& bin, const std::vector<double>& scores) {
    run.sweep.add(bin, scores);
  };
  return run_suite(model, name, source, choose_suite_tests(split_names(run.options.tests)), options);
}

std::string describe_cell(const SuiteBinResult& bin) {
  return fmt::format("{:.3f} {}", bin.mean, interval_text(bin.interval, 3));
}

// A row for each bin of the first model, a column for each model; later ones with the p of their difference.
void print_suite(const CommonOptions& common, const std::vector<SuiteModel>& models,
                 const std::vector<SuiteDifference>& differences) {
  std::string header = fmt::format("{:<14} {:<15}", "test", "");
  for (const SuiteModel& model : models) header += fmt::format(" {:<30}", model.name);
  print_result(common, header);
  const auto find_difference = [&](const std::string& model, const std::string& test,
                                   const std::string& bin) {
    return std::find_if(differences.begin(), differences.end(), [&](const SuiteDifference& row) {
      return row.model == model && row.test == test && row.bin == bin;
    });
  };
  for (size_t t = 0; t < models.front().tests.size(); ++t) {
    const SuiteTestResult& test = models.front().tests[t];
    if (!test.left_out.empty())
      print_result(common, fmt::format("{:<14} left out: {}", test.name, test.left_out));
    for (size_t b = 0; b < test.bins.size(); ++b) {
      std::string line = fmt::format("{:<14} {:<15}", test.name, test.bins[b].name);
      for (const SuiteModel& model : models) {
        const std::vector<SuiteBinResult>& bins = model.tests[t].bins;
        std::string cell =
            b < bins.size() && bins[b].name == test.bins[b].name ? describe_cell(bins[b]) : "-";
        const auto row = find_difference(model.name, test.name, test.bins[b].name);
        if (row != differences.end()) cell += fmt::format(" p {:.3g}", row->p_holm);
        line += fmt::format(" {:<30}", cell);
      }
      print_result(common, line.substr(0, line.find_last_not_of(' ') + 1));
    }
  }
  if (models.size() > 1)
    print_result(common, fmt::format("p: against {}, sign flips over prompts, Holm over all rows; accuracy "
                                     "unless `loss` (nats per token); [95 % interval]",
                                     models.front().name));
}

void report_suite(const SuiteRun& run, const std::vector<SuiteModel>& models,
                  const nlohmann::json& protocol) {
  const std::vector<SuiteDifference> differences = compare_suites(models, run.common.seed);
  print_suite(run.common, models, differences);
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
