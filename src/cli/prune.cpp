// openwork prune: a model without the heads it does not use, as a folder every verb opens.
#include "analyze/prune_model.h"
#include "base/error.h"
#include "cli/verbs.h"
#include "report/circuit_json.h"
#include "report/pruning_json.h"
#include "shell/held_out_options.h"
#include "shell/open.h"
#include "shell/task_options.h"

namespace openwork {
namespace {

struct PruneOptions {
  CommonOptions common;
  PruneSettings settings;
  TaskOptions task;
  std::string model, out, by = "edges";
  HeldOutText text;
};

nlohmann::json describe_run(const PruneOptions& options, const Transformer& model,
                            const TokenBlocks& blocks) {
  nlohmann::json protocol = make_protocol(options.common);
  protocol.update({{"model", describe_model_files(options.model)},
                   {"data", describe_data_files(options.text.data)},
                   {"device", model.device().str()},
                   {"blocks", blocks.count},
                   {"context", blocks.context},
                   {"gates", "hard"},
                   {"bootstrap", "documents, 2000 draws"}});
  return protocol;
}

void run_prune(PruneOptions& options) {
  apply_common_options(options.common);
  options.settings.by = options.by == "effect" ? PruneBy::kEffect : PruneBy::kEdges;
  if (!options.task.task.empty() && options.settings.by == PruneBy::kEdges)
    fail_input("a task, but heads are chosen by their edges", "--task", "add --by effect");
  NewFolder folder(options.out);
  const Transformer model = open_model(options.model, options.common);
  const std::optional<Tokenizer> tokenizer = open_text_tokenizer(options.text, options.model);
  check_settings(options.settings, model.config(), options.model);
  const TokenBlocks blocks = open_held_out(options.text, options.model, model.config(), tokenizer);
  PruneRequest request{.model = options.model,
                       .located = locate_model(options.model),
                       .out = options.out,
                       .settings = options.settings,
                       .task = {},
                       .task_name = options.task.task,
                       .seed = options.common.seed};
  if (!options.task.task.empty())
    request.task = open_task(options.model, model, options.task, options.common, options.common.seed);
  const PruneRecord record = prune_model(model, blocks, request, folder);
  print_results(options.common, describe_pruning(record));
  print_written(options.common, options.out);
  nlohmann::json result = to_json(record);
  result["protocol"] = describe_run(options, model, blocks);
  if (request.task) result["protocol"].update(describe_task(*request.task));
  write_json_result(options.common, result);
}

}  // namespace

void add_prune_verb(CLI::App& app) {
  auto options = std::make_shared<PruneOptions>();
  CLI::App* verb = add_verb(app, "prune");
  verb->add_option("MODEL", options->model, "the model")->type_name("")->required();
  verb->add_option("--data", options->text.data, "text, .xz, .zst, JSONL or token shards to measure on")
      ->required()
      ->expected(1, 4096)
      ->type_name("FILE...");
  verb->add_option("--out", options->out, "the folder to write: full weights, whatever the source's form")
      ->required()
      ->type_name("DIR");
  verb->add_option("--by", options->by, "edges: the share a head keeps; effect: what is lost without it")
      ->check(CLI::IsMember({"edges", "effect"}))
      ->capture_default_str();
  verb->add_option("--below", options->settings.below,
                   "remove heads below this share of edges (default: those that keep none) or effect")
      ->type_name("X");
  verb->add_option("--keep", options->settings.keep, "keep the N heads worth most instead")->type_name("N");
  add_task_options(*verb, options->task);
  verb->get_option("--task")->required(false)->description(
      "by effect: on this task's metric (default: on the text's loss)");
  verb->get_option("--prompts")->needs("--task");
  add_block_options(*verb, options->text);
  add_common_options(*verb, options->common);
  verb->footer(
      "Loss before and after is of the same text. By effect on the loss every head is left out once on\n"
      "every block: keep --blocks small. The folder opens with every verb; heads keep their names.\n"
      "Examples:\n"
      "  openwork prune openwork-8m-sparse --data held_out.txt.xz --context 512 --blocks 100 --out pruned\n"
      "  openwork prune smollm2-135m-sparse --data text.txt --below 0.0001 --out pruned --json pruned.json\n"
      "  openwork prune openwork-8m --data text.txt --blocks 8 --by effect --keep 40 --out smaller");
  verb->callback([options] { run_prune(*options); });
}

}  // namespace openwork
