// openwork pretrain: a model from nothing, by a config.json: sparsify's loop without gates.
#include <fmt/format.h>

#include "base/error.h"
#include "base/progress.h"
#include "cli/training.h"
#include "cli/verbs.h"
#include "io/atomic_file.h"
#include "io/model_store.h"
#include "shell/open.h"
#include "text/tokenizer_files.h"
#include "text/train_tokenizer.h"
#include "train/batches.h"
#include "train/initialise.h"

namespace openwork {
namespace {

struct PretrainOptions {
  TrainingOptions training;
  std::string config, tokenizer;
  int64_t train_tokenizer = 0;  // tokens to learn; 0: take `tokenizer`
};

// Learns a tokenizer from the training documents into the run's folder; a resumed run finds it there.
void learn_tokenizer(const PretrainOptions& options, int64_t vocabulary) {
  const TrainingOptions& training = options.training;
  if (options.train_tokenizer > vocabulary) {
    fail_input(
        fmt::format("--train-tokenizer {}, but the model has {} tokens", options.train_tokenizer, vocabulary),
        options.config, "raise its vocab_size or learn fewer");
  }
  const std::filesystem::path file = training.run.tokenizer_path;
  if (training.run.loop.resume && std::filesystem::exists(file)) return;
  const DataOptions data{{training.data.begin(), training.data.end()}, training.held_out, 0, {}};
  const auto tokenizer = train_tokenizer({data.files, options.train_tokenizer, held_out_texts(data)});
  const auto learned = static_cast<int64_t>(tokenizer.at("model").at("vocab").size());
  if (learned < options.train_tokenizer)
    note(fmt::format("the text has pairs for {} tokens, not {}", learned, options.train_tokenizer));
  write_text_file(file, tokenizer.dump(1) + "\n");
}

void run_pretrain(PretrainOptions& options) {
  apply_common_options(options.training.common);
  RunOptions& run = options.training.run;
  run.model = std::filesystem::path(options.config).filename().string();
  run.model_path = options.config;
  run.random = true;
  run.gate = GateKind::kNone;
  if (options.tokenizer.empty() == (options.train_tokenizer == 0)) {
    fail_input("the tokenizer is not clear", "--tokenizer and --train-tokenizer", "give one of the two");
  }
  const ModelConfig config = read_config_file(options.config);
  settle_training_options(options.training, config.context);
  if (options.train_tokenizer == 0) {
    run.tokenizer_path = locate_model(options.tokenizer).path;
  } else {
    run.tokenizer_path = run.out / "tokenizer.json";
    run.loop.ranks->run_first([&] { learn_tokenizer(options, config.vocabulary); });
  }
  const Tokenizer tokenizer = Tokenizer::from_file(tokenizer_place(run.tokenizer_path));
  run_and_report(options.training, tokenizer, end_of_text(tokenizer, config), config.vocabulary);
}

}  // namespace

void add_pretrain_verb(CLI::App& app) {
  auto options = std::make_shared<PretrainOptions>();
  options->training.run.verb = "pretrain";
  options->training.run.loop.learning_rate = 1e-3;
  options->training.run.loop.adamw.weight_decay = 0.1;
  CLI::App* verb = add_verb(app, "pretrain");
  verb->add_option("--config", options->config, "config.json of the model to make")
      ->required()
      ->type_name("FILE");
  verb->add_option("--tokenizer", options->tokenizer, "tokenizer.json, or a model whose tokenizer it takes")
      ->type_name("FILE");
  verb->add_option("--train-tokenizer", options->train_tokenizer,
                   "or learn one of N tokens from the training documents (byte-level BPE)")
      ->check(between<int64_t>(kSmallestVocabulary, int64_t{1} << 24))
      ->type_name("N");
  add_training_options(*verb, options->training);
  add_common_options(*verb, options->training.common);
  verb->footer(
      "Weights begin as GPT-2's did: normal with initializer_range (0.02), smaller by 1/sqrt(2 layers) where "
      "they write\n"
      "back into the residual stream. --lr is 1e-3 unless given.\n"
      "Examples:\n"
      "  openwork pretrain --config small.json --tokenizer tokenizer.json --data text.txt.xz --steps 10000 "
      "--out small\n"
      "  torchrun --nproc-per-node 8 --no-python openwork pretrain --config c.json --train-tokenizer 32768 "
      "--data d.jsonl --minutes 60 --out big");
  verb->callback([options] { run_pretrain(*options); });
}

}  // namespace openwork
