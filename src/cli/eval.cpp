// openwork eval: held-out loss and kept edges of one or more models on the same text; with --suite what they can do.
#include <fmt/format.h>

#include "analyze/held_out.h"
#include "base/error.h"
#include "base/interval_text.h"
#include "base/progress.h"
#include "cli/common.h"
#include "cli/eval_suite.h"
#include "cli/open.h"
#include "cli/program.h"
#include "cli/ranks.h"
#include "cli/verbs.h"
#include "io/sha256.h"
#include "text/prompt_file.h"

namespace openwork {
namespace {

struct EvalOptions {
  CommonOptions common;
  std::vector<std::string> models, data;
  int64_t context = 0, blocks = 0;
  bool suite = false;
  SuiteVerbOptions suite_options;
};

Evaluation evaluate_model(const EvalOptions& options, const std::string& name, std::string& device,
                          Ranks& ranks) {
  const Transformer model = open_model(name, options.common);
  device = model.device().str();
  const Tokenizer tokenizer = open_tokenizer(name);
  const TokenBlocks blocks = read_held_out(options.data, tokenizer, end_of_text(tokenizer, model.config()),
                                           model.config(), name, options.context, options.blocks);
  HeldOutOptions measure;
  measure.seed = options.common.seed;
  measure.prompts = encode_sample_prompts(tokenizer, beginning_tokens(tokenizer, options.common),
                                          model.config().context, model.config().vocabulary);
  measure.ranks = &ranks;
  Progress progress("eval " + name, static_cast<uint64_t>(blocks.count), " blocks");
  measure.advance = [&](int64_t count) { progress.advance(static_cast<uint64_t>(count)); };
  return evaluate_held_out(model, blocks, measure);
}

void print_header(const CommonOptions& common) {
  print_result(common,
               fmt::format("{:<24} {:>8} {:<16} {:>8} {:>11} {:>6} {:>7} {:>9} {:>6}", "model", "nats/tok",
                           "95 % interval", "bits/B", "kept edges", "open", "closed", "tokens", "docs"));
}

void print_row(const CommonOptions& common, const std::string& name, const Evaluation& result) {
  print_result(common, fmt::format("{:<24} {:>8.4f} {:<16} {:>8.4f} {:>9.3f} % {:>6} {:>7} {:>9} {:>6}", name,
                                   result.nats_per_token, interval_text({result.low, result.high}, 4),
                                   result.bits_per_byte, 100 * result.kept_edges, result.open_heads,
                                   result.closed_heads, result.tokens, result.documents));
  print_result(common, "  kept: " + describe_short_texts(result));
  if (result.documents < 2) print_result(common, "  one document: no interval");
}

// What goes with --suite, and what goes without it.
void check_eval_options(const EvalOptions& options) {
  const SuiteVerbOptions& suite = options.suite_options;
  if (!options.suite && options.data.empty())
    fail_input("--data is required", "eval", "give --data FILE...; only --suite does without");
  if (!options.suite && (!suite.tests.empty() || !suite.out.empty() || suite.prompts > 0))
    fail_input("--tests, --prompts or --out without --suite", "eval", "add --suite");
  if (options.suite && options.blocks > 0)
    fail_input("--blocks with --suite", "eval", "use --prompts N: as many blocks are measured");
}

void run_eval(EvalOptions& options) {
  apply_common_options(options.common);
  check_eval_options(options);
  check_models(options.models);
  if (options.suite)
    return run_eval_suite(options.common, options.models, options.data, options.context,
                          options.suite_options);
  const std::shared_ptr<Ranks> ranks = join_ranks(options.common);
  nlohmann::json result = {{"models", nlohmann::json::array()}}, files = nlohmann::json::array(),
                 data = nlohmann::json::array();
  std::string device;
  for (const std::string& name : options.models) {
    const Evaluation evaluation = evaluate_model(options, name, device, *ranks);
    if (result["models"].empty()) print_header(options.common);  // not before an error
    print_row(options.common, name, evaluation);
    result["models"].push_back(to_json(evaluation));
    result["models"].back()["name"] = name;
  }
  ranks->leave();
  if (options.common.json.empty() || !options.common.speaks) return;
  for (const std::string& name : options.models) files.push_back(describe_model_files(name));
  for (const std::string& path : options.data) {
    data.push_back(
        {{"file", std::filesystem::path(path).filename().string()}, {"sha256", sha256_of_file(path)}});
  }
  result["protocol"] = make_protocol(options.common);
  result["protocol"].update({{"models", files},
                             {"data", data},
                             {"device", device},
                             {"ranks", ranks->count()},
                             {"blocks", options.blocks},
                             {"gates", "hard"},
                             {"bootstrap", "documents, 2000 draws"},
                             {"prompts", {{"prompts", "sample"}, {"count", sample_prompts().size()}}}});
  write_json_result(options.common, result);
}

}  // namespace

void add_eval_verb(CLI::App& app) {
  auto options = std::make_shared<EvalOptions>();
  CLI::App* verb = add_verb(app, "eval");
  verb->add_option("MODEL", options->models, "one or more models")->required()->expected(1, 64);
  verb->add_option("--data", options->data, "text, .xz, .zst, JSONL or token shards")
      ->expected(1, 4096)
      ->type_name("FILE...");
  verb->add_flag("--suite", options->suite, "test what the models can do (docs/suite.md)");
  add_suite_options(*verb, options->suite_options);
  verb->add_option("--context", options->context,
                   "tokens per block (default: the model's context, at most 1024)")
      ->check(between(1, 1 << 24))
      ->type_name("N");
  verb->add_option("--blocks", options->blocks, "at most N blocks (default: all)")
      ->check(between(1, 1 << 30))
      ->type_name("N");
  add_common_options(*verb, options->common);
  verb->footer(
      "The text is split at <|endoftext|>; documents, each followed by the end-of-text token, are joined\n"
      "and cut into blocks of N tokens, each predicting its next token too. Documents are resampled for\n"
      "the interval. The second line says what is kept where texts are short: by rows of a block (row n\n"
      "sees n keys), and, as means over the program's sample prompts, the share kept of a prompt and the\n"
      "heads that keep any of it.\n"
      "--suite asks all models the same: copying and retrieving by distance, the built-in tasks, and with\n"
      "--data words and loss of held-out text; each model is tested against the first, prompt by prompt.\n"
      "An interrupted run with --json FILE continues where it was.\n"
      "Examples:\n"
      "  openwork eval openwork-8m --data held_out.txt.xz --context 512 --blocks 400\n"
      "  openwork eval dense/ sparse/ --data held_out.jsonl --json result.json\n"
      "  openwork eval base/ sparse/ pruned/ --suite --data held_out.txt.xz --out suite.svg --json "
      "suite.json");
  verb->callback([options] { run_eval(*options); });
}

}  // namespace openwork
