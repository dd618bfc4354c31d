#include "cli/sparsify_options.h"

namespace openwork {
namespace {

CLI::Validator one_dense_model() {
  return CLI::IsMember({dense_model_name(DenseModel::kBase), dense_model_name(DenseModel::kControl)});
}

}  // namespace

void add_gate_options(CLI::App& verb, SparsifyOptions& options) {
  RunOptions& run = options.training.run;
  verb.add_option(
          "--gate", options.gate,
          "idle (log P + b > 0 beside an idle key), logprob (log P + b > 0), score (score + b > 0), or none: "
          "the dense control alone")
      ->check(CLI::IsMember({"idle", "logprob", "score", "none"}))
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
                   ->check(one_dense_model())
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
  verb.add_option("--penalty-weight", run.loop.loss.penalty_weight,
                  "weight of all penalties, the edges' and the heads'")
      ->check(between(0.0, 1e9))
      ->type_name("W")
      ->capture_default_str();
  verb.add_option("--head-penalty", run.loop.loss.head_penalty,
                  "of the heads' own ones beside the edges', which close whole heads")
      ->check(between(0.0, 1e9))
      ->type_name("W")
      ->capture_default_str();
  verb.add_option("--head-penalty-end", run.loop.schedule.head_penalty_end,
                  "move that weight to this one over the first half of the run (default: it stays)")
      ->check(between(0.0, 1e9))
      ->type_name("W");
  verb.add_option("--head-penalty-form", options.head_form,
                  "of a head's mean open gates: their root, or their logarithm")
      ->check(CLI::IsMember({"sqrt", "log"}))
      ->capture_default_str();
  verb.add_option("--head-penalty-knee", run.loop.loss.head_knee,
                  "of the logarithm: the share of open gates above which it bends; smaller ones press on a "
                  "head's last few edges")
      ->check(between(1e-9, 1.0))
      ->type_name("X")
      ->capture_default_str();
  verb.add_option("--head-penalty-over", options.head_over, "taken sample by sample, or over the whole batch")
      ->check(CLI::IsMember({"sample", "batch"}))
      ->capture_default_str();
  auto* distill =
      verb.add_option("--distill", run.loop.loss.distill,
                      "weight of the distance to a dense model's predictions, beside the loss's own")
          ->check(between(0.0, 1e9))
          ->type_name("W")
          ->capture_default_str();
  verb.add_option("--distill-from", options.teacher,
                  "that model: the one started from, or the control, which is trained first")
      ->check(one_dense_model())
      ->needs(distill)
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
  verb.add_flag("--control", run.control, "train a dense control too: same data, same steps, no gates");
  verb.add_option("--compact", run.compact,
                  "save a compact difference to MODEL of at most MB megabytes instead of the weights")
      ->check(between(1e-3, 1e6))
      ->type_name("MB");
  verb.add_option("--compact-share", run.loop.schedule.rounding,
                  "share of the run, at its end, that trains the weights as the difference will have them")
      ->type_name("X")
      ->default_str("0.3");
  verb.add_option("--compact-ramp", run.loop.schedule.rounding_ramp,
                  "share of the run over which those weights come on, at the beginning of that share "
                  "(default: at once)")
      ->type_name("X");
}

void add_form_options(CLI::App& verb, SparsifyOptions& options) {
  verb.add_flag("--full", options.full, "train all weights (the default)");
  verb.add_option("--lora", options.lora.rank, "train low-rank changes of rank R instead")
      ->check(between(1, 1 << 16))
      ->type_name("R");
  verb.add_option("--lora-alpha", options.lora_alpha, "their scale is alpha / R (default: R)")
      ->check(between(1e-6, 1e6))
      ->type_name("X");
  verb.add_option("--lora-targets", options.lora.targets, "all, attention, mlp, or modules such as q_proj")
      ->delimiter(',')
      ->type_name("NAME,...");
  verb.add_option("--lora-full", options.lora.full,
                  "with --lora: train these modules whole, attention say, and the others by low ranks")
      ->delimiter(',')
      ->type_name("NAME,...");
  verb.add_flag("--memory", options.training.memory_only,
                "only say how much memory the run will take (--device cuda: also where no GPU is)");
  verb.add_option("--init", options.start, "pretrained, or random: weights drawn by the seed")
      ->check(CLI::IsMember({"pretrained", "random"}))
      ->capture_default_str();
}

}  // namespace openwork
