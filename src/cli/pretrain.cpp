// openwork pretrain: a model from nothing, by a config.json: sparsify's loop without gates.
#include <fmt/format.h>

#include "base/error.h"
#include "cli/open.h"
#include "cli/training.h"
#include "cli/verbs.h"
#include "train/initialise.h"

namespace openwork {
namespace {

struct PretrainOptions {
  TrainingOptions training;
  std::string config, tokenizer;
};

void run_pretrain(PretrainOptions& options) {
  apply_common_options(options.training.common);
  RunOptions& run = options.training.run;
  run.model = std::filesystem::path(options.config).filename().string();
  run.model_path = options.config;
  run.tokenizer_path = options.tokenizer;
  run.random = true;
  run.gate = GateKind::kNone;
  const ModelConfig config = read_config_file(options.config);
  settle_training_options(options.training, config.context);
  const Tokenizer tokenizer = Tokenizer::from_file(options.tokenizer);
  run_and_report(options.training, tokenizer, end_of_text(tokenizer, config), config.vocabulary);
}

}  // namespace

void add_pretrain_verb(CLI::App& app) {
  auto options = std::make_shared<PretrainOptions>();
  options->training.run.verb = "pretrain";
  options->training.run.loop.learning_rate = 1e-3;
  options->training.run.loop.adamw.weight_decay = 0.1;
  CLI::App* verb = app.add_subcommand("pretrain", "train a model from nothing by its config.json");
  verb->add_option("--config", options->config, "config.json of the model to make")
      ->required()
      ->type_name("FILE");
  verb->add_option("--tokenizer", options->tokenizer, "tokenizer.json, or a model whose tokenizer it takes")
      ->required()
      ->type_name("FILE");
  add_training_options(*verb, options->training);
  add_common_options(*verb, options->training.common);
  verb->footer(
      "Weights begin as GPT-2's did: normal with initializer_range (0.02), smaller by 1/sqrt(2 layers) where "
      "they write\n"
      "back into the residual stream. --lr is 1e-3 unless given.\n"
      "Examples:\n"
      "  openwork pretrain --config small.json --tokenizer tokenizer.json --data text.txt.xz --steps 10000 "
      "--out small");
  verb->callback([options] { run_pretrain(*options); });
}

}  // namespace openwork
