// openwork eval: held-out loss and kept edges of one or more models on the same text; with --suite what they can do.
#include <fmt/format.h>

#include "analyze/held_out.h"
#include "base/error.h"
#include "base/progress.h"
#include "cli/eval_suite.h"
#include "cli/verbs.h"
#include "report/evaluation_text.h"
#include "shell/held_out_options.h"
#include "shell/open.h"
#include "shell/ranks.h"
#include "text/prompt_file.h"

namespace openwork {
namespace {

struct EvalOptions {
  CommonOptions common;
  std::vector<std::string> models;
  HeldOutText text;
  bool suite = false;
  SuiteVerbOptions suite_options;
};

Evaluation evaluate_model(const EvalOptions& options, const std::string& name, std::string& device,
                          Ranks& ranks) {
  const Transformer model = open_model(name, options.common);
  device = model.device().str();
  const std::optional<Tokenizer> tokenizer = open_text_tokenizer(options.text, name);
  const TokenBlocks blocks = open_held_out(options.text, name, model.config(), tokenizer);
  HeldOutOptions measure;
  measure.seed = options.common.seed;
  if (tokenizer)
    measure.prompts = encode_sample_prompts(*tokenizer, beginning_tokens(*tokenizer, options.common),
                                            model.config().context, model.config().vocabulary);
  measure.ranks = &ranks;
  Progress progress("eval " + name, static_cast<uint64_t>(blocks.count), " blocks");
  measure.advance = [&](int64_t count) { progress.advance(static_cast<uint64_t>(count)); };
  return evaluate_held_out(model, blocks, measure);
}

// What goes with --suite, and what goes without it.
void check_eval_options(const EvalOptions& options) {
  const SuiteVerbOptions& suite = options.suite_options;
  if (!options.suite && options.text.data.empty())
    fail_input("--data is required", "eval", "give --data FILE...; only --suite does without");
  if (!options.suite && (!suite.tests.empty() || !suite.out.empty() || suite.prompts > 0))
    fail_input("--tests, --prompts or --out without --suite", "eval", "add --suite");
  if (options.suite && options.text.blocks > 0)
    fail_input("--blocks with --suite", "eval", "use --prompts N: as many blocks are measured");
}

void run_eval(EvalOptions& options) {
  apply_common_options(options.common);
  check_eval_options(options);
  check_models(options.models);
  if (options.suite)
    return run_eval_suite(options.common, options.models, options.text.data, options.text.context,
                          options.suite_options);
  const std::shared_ptr<Ranks> ranks = join_ranks(options.common);
  nlohmann::json result = {{"models", nlohmann::json::array()}};
  std::string device;
  for (const std::string& name : options.models) {
    const Evaluation evaluation = evaluate_model(options, name, device, *ranks);
    if (result["models"].empty())
      print_result(options.common, format_evaluation_header());  // not before an error
    print_results(options.common, format_evaluation(name, evaluation));
    result["models"].push_back(to_json(evaluation));
    result["models"].back()["name"] = name;
  }
  ranks->leave();
  if (options.common.json.empty() || !options.common.speaks) return;
  result["protocol"] = make_protocol(options.common);
  result["protocol"].update({{"models", describe_models(options.models)},
                             {"data", describe_data_files(options.text.data)},
                             {"device", device},
                             {"ranks", ranks->count()},
                             {"blocks", options.text.blocks},
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
  verb->add_option("--data", options->text.data, "text, .xz, .zst, JSONL or token shards")
      ->expected(1, 4096)
      ->type_name("FILE...");
  verb->add_flag("--suite", options->suite, "test what the models can do (docs/suite.md)");
  add_suite_options(*verb, options->suite_options);
  add_block_options(*verb, options->text);
  add_common_options(*verb, options->common);
  verb->footer(
      "The text is split at <|endoftext|>; documents, each followed by the end-of-text token, are joined\n"
      "and cut into blocks of N tokens, each predicting its next token too. Documents are resampled for\n"
      "the interval. The second line says what is kept where texts are short: by rows of a block (row n\n"
      "sees n keys), and, as means over the program's sample prompts, the share kept of a prompt and the\n"
      "heads that keep any of it; the third, of a gated model, the fewest heads that have half of all edges\n"
      "kept.\n"
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
