// openwork prune: a model without the heads it does not use, as a folder every verb opens.
#include <fmt/format.h>

#include "analyze/held_out.h"
#include "analyze/pruning.h"
#include "base/error.h"
#include "base/progress.h"
#include "cli/common.h"
#include "cli/open.h"
#include "cli/program.h"
#include "cli/task_options.h"
#include "cli/verbs.h"
#include "io/model_store.h"
#include "io/new_folder.h"
#include "io/sha256.h"
#include "model/kept_heads.h"
#include "model/load.h"
#include "model/prune.h"
#include "report/circuit_json.h"
#include "report/pruning_json.h"
#include "train/tokenizer_files.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

struct PruneOptions {
  CommonOptions common;
  PruneSettings settings;
  TaskOptions task;
  std::string model, out, by = "edges";
  std::vector<std::string> data;
  int64_t context = 0, blocks = 0;
};

// What transcoders of the source, or of what it was pruned from, know their model by.
std::string source_hash(const ModelConfig& config, const LocatedModel& located) {
  const std::string own = config.source.value("source_sha256", "");
  return config.kept_heads.empty() || own.empty() ? model_hash(located) : own;
}

// The tokenizer, and transcoders where the source has some: they serve the pruned model too.
void copy_what_serves(const LocatedModel& located, const fs::path& folder) {
  copy_tokenizer(located.path, folder);
  const fs::path own = located.adapter.value_or(located.path) / "transcoders";
  std::error_code error;
  if (!fs::is_directory(own, error)) return;
  copy_folder(own, folder / "transcoders");
}

class Pruning {
 public:
  explicit Pruning(PruneOptions& options)
      : options_(options),
        folder_(options.out),
        located_(locate_model(options.model)),
        model_(open_model(options.model, options.common)),
        tokenizer_(open_tokenizer(options.model)) {
    check_settings(options.settings, model_.config(), options.model);
    blocks_ = read_held_out(options.data, tokenizer_, end_of_text(tokenizer_, model_.config()),
                            model_.config(), options.model, options.context, options.blocks);
  }

  void run() {
    PruneRecord record;
    record.model = options_.model, record.folder = options_.out, record.settings = options_.settings;
    record.before = evaluate(model_, "before");
    record.worth = measure_worth(record);
    record.kept = choose_heads(model_.config(), record.worth, options_.settings);
    save_pruned_model(folder_.part(), prune_heads(model_, record.kept),
                      source_hash(model_.config(), located_), model_.dtype());
    copy_what_serves(located_, folder_.part());
    folder_.commit();
    const Transformer saved = load_model(options_.out, {model_.dtype(), model_.device()});
    record.heads_before = count_kept_heads(model_.config()),
    record.heads_after = count_kept_heads(saved.config());
    record.parameters_before = count_parameters(model_), record.parameters_after = count_parameters(saved);
    record.after = evaluate(saved, "after");
    record.largest_logit_difference = compare_logits(model_, saved, blocks_);
    report(record);
  }

 private:
  Evaluation evaluate(const Transformer& model, const std::string& when) {
    Progress progress("loss " + when, static_cast<uint64_t>(blocks_.count), " blocks");
    HeldOutOptions measure;
    measure.seed = options_.common.seed;
    measure.advance = [&](int64_t count) { progress.advance(static_cast<uint64_t>(count)); };
    return evaluate_held_out(model, blocks_, measure);
  }

  HeadWorths measure_worth(PruneRecord& record) {
    if (options_.settings.by == PruneBy::kEdges) return record.before.heads;
    record.effect_of = options_.task.task.empty() ? "loss" : options_.task.task;
    if (!options_.task.task.empty()) {
      const Task task =
          open_task(options_.model, model_, options_.task, options_.common, options_.common.seed);
      task_ = describe_task(task);
      return measure_task_effects(model_, task);
    }
    const int64_t steps = count_kept_heads(model_.config()) * blocks_.count;
    Progress progress("effects", static_cast<uint64_t>(steps), " heads on blocks");
    return measure_loss_effects(model_, blocks_,
                                [&](int64_t count) { progress.advance(static_cast<uint64_t>(count)); });
  }

  void report(const PruneRecord& record) {
    for (const std::string& line : describe_pruning(record)) print_result(options_.common, line);
    print_written(options_.common, options_.out);
    nlohmann::json result = to_json(record), data = nlohmann::json::array();
    for (const std::string& path : options_.data)
      data.push_back({{"file", fs::path(path).filename().string()}, {"sha256", sha256_of_file(path)}});
    result["protocol"] = make_protocol(options_.common);
    result["protocol"].update({{"model", describe_model_files(options_.model)},
                               {"data", data},
                               {"device", model_.device().str()},
                               {"blocks", blocks_.count},
                               {"context", blocks_.context},
                               {"gates", "hard"},
                               {"bootstrap", "documents, 2000 draws"}});
    if (!task_.is_null()) result["protocol"].update(task_);
    write_json_result(options_.common, result);
  }

  PruneOptions& options_;
  NewFolder folder_;
  LocatedModel located_;
  Transformer model_;
  Tokenizer tokenizer_;
  TokenBlocks blocks_;
  nlohmann::json task_;
};

void run_prune(PruneOptions& options) {
  apply_common_options(options.common);
  options.settings.by = options.by == "effect" ? PruneBy::kEffect : PruneBy::kEdges;
  if (!options.task.task.empty() && options.settings.by == PruneBy::kEdges)
    fail_input("a task, but heads are chosen by their edges", "--task", "add --by effect");
  Pruning(options).run();
}

}  // namespace

void add_prune_verb(CLI::App& app) {
  auto options = std::make_shared<PruneOptions>();
  CLI::App* verb = add_verb(app, "prune");
  verb->add_option("MODEL", options->model, "the model")->type_name("")->required();
  verb->add_option("--data", options->data, "text, .xz, .zst, JSONL or token shards to measure on")
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
  verb->add_option("--context", options->context,
                   "tokens per block (default: the model's context, at most 1024)")
      ->check(between(1, 1 << 24))
      ->type_name("N");
  verb->add_option("--blocks", options->blocks, "at most N blocks (default: all)")
      ->check(between(1, 1 << 30))
      ->type_name("N");
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
