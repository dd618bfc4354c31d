// openwork sparsify: gates every attention edge of a model and post-trains it until few are left, at its own
// loss.
#include <fmt/format.h>

#include "base/error.h"
#include "cli/open.h"
#include "cli/training.h"
#include "cli/verbs.h"
#include "io/model_store.h"
#include "model/load.h"
#include "train/initialise.h"

namespace openwork {
namespace {

struct SparsifyOptions {
  TrainingOptions training;
  std::string gate = "logprob", start = "pretrained";
  MultiplierOptions multiplier;
  LoraOptions lora;
  double lora_alpha = 0;
  bool full = false;
};

void settle(SparsifyOptions& options, const CLI::App& verb) {
  RunOptions& run = options.training.run;
  const LocatedModel located = locate_model(run.model);
  run.model_path = run.tokenizer_path = located.path;
  run.adapter = located.adapter;
  run.random = options.start == "random";
  run.gate = parse_gate(options.gate, "--gate");
  if (run.gate_bias_end && !run.gate_bias)
    run.gate_bias = default_gate_bias(run.gate);  // a way needs its beginning
  run.loop.multiplier = options.multiplier;
  if (options.multiplier.lowest > options.multiplier.highest) {
    fail_input("the multiplier's lower bound is above its upper one", "--multiplier-min",
               "choose a smaller one");
  }
  run.loop.multiplier->start =
      std::clamp(options.multiplier.start, options.multiplier.lowest, options.multiplier.highest);
  const bool lora = verb.get_option("--lora")->count() > 0;
  if (lora && options.full) fail_input("--full and --lora together", "command line", "choose one of the two");
  if (lora) {
    run.weights.lora = options.lora;
    run.weights.lora->alpha =
        options.lora_alpha > 0 ? options.lora_alpha : static_cast<double>(options.lora.rank);
  }
  if (run.target_from_control && !run.control) {
    fail_input("--target-from-control without --control", "command line", "give both");
  }
  if (!run.compact) {
    run.loop.schedule.rounding = 0;
  } else if (verb.get_option("--compact-share")->count() == 0) {
    run.loop.schedule.rounding = 0.3;
  }
  if (run.compact && (lora || run.random || run.adapter)) {
    fail_input("--compact is a difference to a whole model", "command line",
               "use it without --lora and --init random, on a model that is no adapter");
  }
  run.loop.learning_rate = lora ? 7e-4 : 2e-4;
  const ModelConfig config = run.random ? read_config_file(located.path) : load_config(located.path);
  settle_training_options(options.training, config.context);
  const Tokenizer tokenizer = open_tokenizer(run.model);
  run_and_report(options.training, tokenizer, end_of_text(tokenizer, config), config.vocabulary);
}

void add_gate_options(CLI::App& verb, SparsifyOptions& options) {
  RunOptions& run = options.training.run;
  verb.add_option("--gate", options.gate, "logprob (log P + b > 0) or score (score + b > 0)")
      ->check(CLI::IsMember({"logprob", "score"}))
      ->capture_default_str();
  verb.add_option("--gate-bias", run.gate_bias, "b at the start (default: 5 for logprob, 4 for score)")
      ->type_name("B");
  verb.add_option("--gate-bias-end", run.gate_bias_end,
                  "b when the rate begins to fall (default: as at the start)")
      ->type_name("B");
  verb.add_flag("--learn-bias", run.weights.learn_bias, "learn b, one per head");
  verb.add_option("--bias-lr", run.loop.bias_rate, "peak learning rate of b")
      ->check(between(0.0, 10.0))
      ->type_name("X")
      ->capture_default_str();
  verb.add_option("--noise-anneal", run.loop.schedule.noise_anneal,
                  "share of the run, at its end, in which hard gates take the place of sampled ones")
      ->type_name("X")
      ->capture_default_str();
  auto* target = verb.add_option("--target-loss", run.target_loss, "keep the training loss at X nats/token")
                     ->type_name("X");
  verb.add_option("--tolerance", run.tolerance, "or at the base's held-out loss plus X")
      ->type_name("X")
      ->capture_default_str()
      ->excludes(target);
  verb.add_flag("--target-from-control", run.target_from_control,
                "with --control: stay within the tolerance of its training loss, step by step")
      ->excludes(target);
  verb.add_option("--target-slack", run.loop.schedule.target_slack,
                  "allow X more while the learning rate is high")
      ->type_name("X")
      ->capture_default_str();
  verb.add_option("--penalty-weight", run.loop.loss.penalty_weight, "weight of the edges' penalty")
      ->check(between(0.0, 1e9))
      ->type_name("W")
      ->capture_default_str();
  verb.add_option("--head-penalty", run.loop.loss.head_penalty,
                  "weight of the square roots of the heads' penalties")
      ->check(between(0.0, 1e9))
      ->type_name("W")
      ->capture_default_str();
  verb.add_option("--distill", run.loop.loss.distill,
                  "weight of the distance to the dense model's predictions")
      ->check(between(0.0, 1e9))
      ->type_name("W")
      ->capture_default_str();
  verb.add_option("--multiplier-start", options.multiplier.start, "lambda at the start")
      ->check(between(1e-9, 1e9))
      ->type_name("X")
      ->capture_default_str();
  verb.add_option("--multiplier-rate", options.multiplier.rate, "how fast lambda follows the loss")
      ->check(between(0.0, 1e3))
      ->type_name("X")
      ->capture_default_str();
  verb.add_option("--multiplier-min", options.multiplier.lowest, "bounds of lambda")
      ->check(between(1e-9, 1e9))
      ->type_name("X")
      ->capture_default_str();
  verb.add_option("--multiplier-max", options.multiplier.highest, "")
      ->check(between(1e-9, 1e9))
      ->type_name("X")
      ->capture_default_str();
}

}  // namespace

void add_sparsify_verb(CLI::App& app) {
  auto options = std::make_shared<SparsifyOptions>();
  options->training.run.verb = "sparsify";
  CLI::App* verb = app.add_subcommand(
      "sparsify", "gate every attention edge and post-train until few are left, at the model's own loss");
  verb->add_option("MODEL", options->training.run.model, "the model to start from")->required();
  add_gate_options(*verb, *options);
  verb->add_flag("--full", options->full, "train all weights (the default)");
  verb->add_option("--lora", options->lora.rank, "train low-rank changes of rank R instead")
      ->check(between(1, 1 << 16))
      ->type_name("R");
  verb->add_option("--lora-alpha", options->lora_alpha, "their scale is alpha / R (default: R)")
      ->check(between(1e-6, 1e6))
      ->type_name("X");
  verb->add_option("--lora-targets", options->lora.targets, "all, attention, mlp, or modules such as q_proj")
      ->delimiter(',')
      ->type_name("NAME,...");
  verb->add_flag("--control", options->training.run.control,
                 "train a dense control too: same data, same steps, no gates");
  verb->add_option("--compact", options->training.run.compact,
                   "save a compact difference to MODEL of at most MB megabytes instead of the weights")
      ->check(between(1e-3, 1e6))
      ->type_name("MB");
  verb->add_option("--compact-share", options->training.run.loop.schedule.rounding,
                   "share of the run, at its end, that trains the weights as the difference will have them")
      ->type_name("X")
      ->default_str("0.3");
  verb->add_option("--init", options->start, "pretrained, or random: weights drawn by the seed")
      ->check(CLI::IsMember({"pretrained", "random"}))
      ->capture_default_str();
  add_training_options(*verb, options->training);
  add_common_options(*verb, options->training.common);
  verb->footer(
      "Ends with held-out loss, kept edges and heads of the base, the control and the result: report.md, "
      "report.json.\n"
      "--lr is 2e-4 unless given, 7e-4 with --lora. Gates are fp32; weights compute in bf16 on a GPU unless "
      "--dtype fp32.\n"
      "Examples:\n"
      "  openwork sparsify openwork-8m --data train.txt.xz --context 512 --minutes 20 --control --out "
      "sparse-8m\n"
      "  openwork sparsify gpt2 --data text.jsonl --learn-bias --head-penalty 0.1 --steps 5000 --out "
      "sparse-gpt2\n"
      "  openwork sparsify big/ --lora 64 --data text.jsonl --steps 2000 --out adapter --resume");
  verb->callback([options, verb] {
    apply_common_options(options->training.common);
    settle(*options, *verb);
  });
}

}  // namespace openwork
