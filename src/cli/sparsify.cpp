// openwork sparsify: gates every attention edge of a model and post-trains it until few are left, at its own
// loss.
#include <fmt/format.h>

#include "base/error.h"
#include "cli/open.h"
#include "cli/program.h"
#include "cli/training.h"
#include "cli/verbs.h"
#include "io/model_store.h"
#include "model/adapter.h"
#include "model/load.h"
#include "train/initialise.h"

namespace openwork {
namespace {

struct SparsifyOptions {
  TrainingOptions training;
  std::string gate = "idle", start = "pretrained", target = "base", head_form = "log", head_over = "sample";
  MultiplierOptions multiplier;
  LoraOptions lora;
  double lora_alpha = 0;
  bool full = false;
};

bool is_given(const CLI::App& verb, const char* option) {
  return verb.get_option(option)->count() > 0;
}

void settle_gates(RunOptions& run, const CLI::App& verb) {
  if (run.gate_bias_end && !run.gate_bias)
    run.gate_bias = default_gate_bias(run.gate);  // a way needs its beginning
  if (run.gate_idle_end && !run.gate_idle) run.gate_idle = kDefaultIdle;
  // Learned unless a way is given or learning is refused.
  run.weights.learn_bias = is_given(verb, "--learn-bias") ? run.weights.learn_bias : !run.gate_bias_end;
  if (run.gate != GateKind::kIdle) {
    for (const char* option : {"--idle", "--idle-end", "--learn-idle", "--idle-lr"}) {
      if (is_given(verb, option))
        fail_input(fmt::format("{} with --gate {}", option, gate_name(run.gate)), "command line",
                   "an idle key is of --gate idle alone");
    }
  }
  Schedule& schedule = run.loop.schedule;
  if (!is_given(verb, "--sharpness-end")) schedule.sharpness_end = schedule.sharpness;
}

void settle_target(SparsifyOptions& options, const CLI::App& verb) {
  RunOptions& run = options.training.run;
  run.target = options.target == "control" ? TargetKind::kControl : TargetKind::kBase;
  if (run.target_from_control && !run.control)
    fail_input("--target-from-control without --control", "command line", "give both");
  if (run.target == TargetKind::kControl || run.frontier > 0) run.control = true;
  if (run.frontier > 0 && run.loop.steps > 0 && run.loop.steps < run.frontier) {
    fail_input(fmt::format("{} steps cannot be shared by {} points", run.loop.steps, run.frontier),
               "--frontier", "give more --steps");
  }
  if (run.target_from_control) return;
  // The gap to the training loss is measured on the way (train/target.h).
  int64_t& measurements = run.loop.measurements;
  measurements = is_given(verb, "--measurements") ? std::max<int64_t>(measurements, 10) : 40;
}

void settle(SparsifyOptions& options, const CLI::App& verb) {
  RunOptions& run = options.training.run;
  const LocatedModel located = locate_model(run.model);
  run.model_path = run.tokenizer_path = located.path;
  run.adapter = located.adapter;
  run.random = options.start == "random";
  run.gate = parse_gate(options.gate, "--gate");
  settle_gates(run, verb);
  settle_target(options, verb);
  run.loop.loss.head_form = parse_head_form(options.head_form, "--head-penalty-form");
  run.loop.loss.head_over_batch = options.head_over == "batch";
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
  if (!run.compact) {
    run.loop.schedule.rounding = 0;
  } else if (verb.get_option("--compact-share")->count() == 0) {
    run.loop.schedule.rounding = 0.3;
  }
  if (run.compact && (lora || run.random || run.adapter)) {
    fail_input("--compact is a difference to a whole model", "command line",
               "use it without --lora and --init random, on a model that is no adapter");
  }
  if (run.frontier > 0 && lora) {
    fail_input("--frontier with --lora", "command line",
               "train all weights: each point goes on from the model before it");
  }
  run.loop.learning_rate = lora ? 7e-4 : 3e-4;
  const ModelConfig config = run.random ? read_config_file(located.path) : load_config(located.path);
  if (lora) find_lora_targets(config, *run.weights.lora);  // says which it does not know, before any work
  settle_training_options(options.training, config.context);
  const Tokenizer tokenizer = open_tokenizer(run.model);
  run_and_report(options.training, tokenizer, end_of_text(tokenizer, config), config.vocabulary);
}

void add_gate_options(CLI::App& verb, SparsifyOptions& options) {
  RunOptions& run = options.training.run;
  verb.add_option("--gate", options.gate,
                  "idle (log P + b > 0 beside an idle key), logprob (log P + b > 0) or score (score + b > 0)")
      ->check(CLI::IsMember({"idle", "logprob", "score"}))
      ->capture_default_str();
  verb.add_option("--gate-bias", run.gate_bias,
                  "b at the start (default: the model's own gates', else 5, and 4 for score)")
      ->type_name("B");
  verb.add_option("--gate-bias-end", run.gate_bias_end,
                  "b when the rate begins to fall (default: as at the start)")
      ->type_name("B");
  verb.add_flag("--learn-bias,!--no-learn-bias", run.weights.learn_bias,
                "learn b, one per head (the default without --gate-bias-end)");
  verb.add_option("--bias-lr", run.loop.bias_rate, "peak learning rate of b")
      ->check(between(0.0, 10.0))
      ->type_name("X")
      ->capture_default_str();
  verb.add_option("--idle", run.gate_idle,
                  "score of the idle key at the start (default: the model's own, else 5)")
      ->check(between(-1e4, 1e4))
      ->type_name("A");
  verb.add_option("--idle-end", run.gate_idle_end,
                  "its score when the rate begins to fall (default: as at the start)")
      ->check(between(-1e4, 1e4))
      ->type_name("A");
  verb.add_flag("--learn-idle", run.weights.learn_idle, "learn it, one per head");
  verb.add_option("--idle-lr", run.loop.idle_rate, "peak learning rate of the idle score")
      ->check(between(0.0, 10.0))
      ->type_name("X")
      ->capture_default_str();
  verb.add_option("--sharpness", run.loop.schedule.sharpness,
                  "1, 2 or 4: that many times the gate stands for it in noise and penalty")
      ->type_name("X")
      ->capture_default_str();
  verb.add_option("--sharpness-end", run.loop.schedule.sharpness_end,
                  "at the end, by doublings at equal shares of the run (default: as at the start)")
      ->type_name("X");
  verb.add_option("--noise-anneal", run.loop.schedule.noise_anneal,
                  "share of the run, at its end, in which hard gates take the place of sampled ones")
      ->type_name("X")
      ->capture_default_str();
}

void add_target_options(CLI::App& verb, SparsifyOptions& options) {
  RunOptions& run = options.training.run;
  auto* kind = verb.add_option("--target", options.target,
                               "end at the held-out loss of the base or of the dense control, gates hard")
                   ->check(CLI::IsMember({"base", "control"}))
                   ->capture_default_str();
  auto* tolerance = verb.add_option("--tolerance", run.tolerance, "plus X nats/token")
                        ->type_name("X")
                        ->capture_default_str();
  auto* target = verb.add_option("--target-loss", run.target_loss, "or at X nats/token, held out, gates hard")
                     ->check(between(0.0, 1e3))
                     ->type_name("X")
                     ->excludes(kind)
                     ->excludes(tolerance);
  auto* follow =
      verb.add_flag("--target-from-control", run.target_from_control,
                    "or, with --control: stay within the tolerance of its training loss, step by step")
          ->excludes(target)
          ->excludes(kind);
  verb.add_option("--target-slack", run.target_slack,
                  "allow X more while the learning rate is high (default: 0.03, with a control 0)")
      ->type_name("X");
  verb.add_option(
          "--frontier", run.frontier,
          "N models, each from the last and sparser: targets from the control's loss + 0.03 to the base's; "
          "the length of the run is shared")
      ->check(between(1, 64))
      ->type_name("N")
      ->excludes(kind)
      ->excludes(tolerance)
      ->excludes(target)
      ->excludes(follow);
  verb.add_option("--penalty-weight", run.loop.loss.penalty_weight, "weight of the edges' penalty")
      ->check(between(0.0, 1e9))
      ->type_name("W")
      ->capture_default_str();
  verb.add_option("--head-penalty", run.loop.loss.head_penalty,
                  "weight of the heads' own penalties, which close whole heads")
      ->check(between(0.0, 1e9))
      ->type_name("W")
      ->capture_default_str();
  verb.add_option("--head-penalty-form", options.head_form,
                  "of a head's mean open gates: their root, or their logarithm above a thousandth")
      ->check(CLI::IsMember({"sqrt", "log"}))
      ->capture_default_str();
  verb.add_option("--head-penalty-over", options.head_over, "taken sample by sample, or over the whole batch")
      ->check(CLI::IsMember({"sample", "batch"}))
      ->capture_default_str();
  verb.add_option("--distill", run.loop.loss.distill,
                  "weight of the distance to the dense model's predictions, beside the loss's own")
      ->check(between(0.0, 1e9))
      ->type_name("W")
      ->capture_default_str();
  verb.add_option("--distill-every", run.loop.loss.distill_every,
                  "take that distance on one sample in N; fewer cost less time")
      ->check(between(int64_t{1}, int64_t{1} << 20))
      ->type_name("N")
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
  options->training.run.loop.loss.head_penalty = 0.5;
  options->training.batch_tokens = 0;  // chosen by the device
  CLI::App* verb = add_verb(app, "sparsify");
  verb->add_option("MODEL", options->training.run.model, "the model to start from")->required();
  add_gate_options(*verb, *options);
  add_target_options(*verb, *options);
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
  verb->get_option("--batch-tokens")->default_str("65536 on a GPU, 16384 on the CPU");
  verb->get_option("--measurements")->default_str("40, at least 10; 0 with --target-from-control");
  verb->add_option("--lengths", options->training.lengths,
                   "cut the batch's rows into blocks of these lengths by turns (the longest is --context)")
      ->delimiter(',')
      ->check(between(1, 1 << 24))
      ->type_name("N,...");
  add_common_options(*verb, options->training.common);
  verb->footer(
      "Ends with held-out loss, kept edges and heads of the base, the control and the result: report.md, "
      "report.json.\n"
      "--lr is 3e-4 unless given, 7e-4 with --lora. Gates are fp32; weights compute in bf16 on a GPU unless "
      "--dtype fp32.\n"
      "Training aims at the target plus the gap between training and held-out loss, measured on the way.\n"
      "Examples:\n"
      "  openwork sparsify gpt2 --data text.jsonl --minutes 20 --out sparse-gpt2\n"
      "  openwork sparsify openwork-8m --data train.txt.xz --target control --tolerance 0.02 --minutes 20 "
      "--out "
      "sparse-8m\n"
      "  openwork sparsify gpt2 --data text.jsonl --frontier 3 --minutes 60 --out frontier\n"
      "  openwork sparsify big/ --lora 64 --data text.jsonl --steps 2000 --out adapter --resume");
  verb->callback([options, verb] {
    apply_common_options(options->training.common);
    settle(*options, *verb);
  });
}

}  // namespace openwork
