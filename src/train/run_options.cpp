#include "train/run_options.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/gate_kind.h"

namespace openwork {
namespace {

const char* save_dtype_name(at::ScalarType dtype) {
  return dtype == at::kHalf ? "fp16" : dtype == at::kBFloat16 ? "bf16" : "fp32";
}

}  // namespace

void check_run_options(const RunOptions& run) {
  if (run.target_from_control && !run.control)
    fail_input("--target-from-control without --control", "command line", "give both");
  if (run.teacher == DenseModel::kControl && run.weights.lora && run.random) {
    fail_input("--distill-from control with --lora and --init random", "command line",
               "an adapter of drawn weights has no base on disk to be opened with");
  }
  if (run.frontier > 0 && run.loop.steps > 0 && run.loop.steps < run.frontier) {
    fail_input(fmt::format("{} steps cannot be shared by {} points", run.loop.steps, run.frontier),
               "--frontier", "give more --steps");
  }
  if (run.loop.multiplier && run.loop.multiplier->lowest > run.loop.multiplier->highest) {
    fail_input("the multiplier's lower bound is above its upper one", "--multiplier-min",
               "choose a smaller one");
  }
  if (run.compact && (run.weights.lora || run.random || run.adapter)) {
    fail_input("--compact is a difference to a whole model", "command line",
               "use it without --lora and --init random, on a model that is no adapter");
  }
  if (run.adapter && run.weights.lora) {
    fail_input("the model is an adapter already", run.model,
               "train all its weights (--full), or start from its base");
  }
  if (run.frontier > 0 && run.weights.lora) {
    fail_input("--frontier with --lora", "command line",
               "train all weights: each point goes on from the model before it");
  }
}

nlohmann::json describe_options(const RunOptions& run, int64_t context) {
  const LoopOptions& loop = run.loop;
  const WeightOptions& weights = run.weights;
  nlohmann::json json = {{"context", context},
                         {"lengths", loop.lengths},
                         {"batch_tokens", loop.batch * context},
                         {"accumulate", loop.accumulate},
                         {"recompute", weights.recompute},
                         {"ranks", loop.ranks->count()},
                         {"steps", loop.steps},
                         {"minutes", loop.minutes},
                         {"learning_rate", loop.learning_rate},
                         {"weight_decay", loop.adamw.weight_decay},
                         {"clip", loop.adamw.clip},
                         {"warmup", loop.schedule.warmup},
                         {"decay", loop.schedule.decay},
                         {"dtype", weights.dtype == at::kFloat ? "fp32" : "bf16"},
                         {"save_dtype", save_dtype_name(run.save_dtype)}};
  if (weights.lora)
    json.update({{"lora", weights.lora->rank},
                 {"lora_alpha", weights.lora->alpha},
                 {"lora_targets", weights.lora->targets}});
  if (weights.lora && !weights.lora->full.empty()) json["lora_full"] = weights.lora->full;
  if (run.gate == GateKind::kNone) return json;
  json.update({{"gate", gate_name(run.gate)},
               {"gate_bias", run.gate_bias.value_or(default_gate_bias(run.gate))},
               {"learn_bias", weights.learn_bias},
               {"bias_learning_rate", loop.bias_rate},
               {"sharpness", {loop.schedule.sharpness, loop.schedule.sharpness_end}},
               {"noise_anneal", loop.schedule.noise_anneal},
               {"penalty_weight", loop.loss.penalty_weight},
               {"head_penalty", loop.loss.head_penalty},
               {"head_penalty_form", head_form_name(loop.loss.head_form)},
               {"head_penalty_knee", loop.loss.head_knee},
               {"head_penalty_over", loop.loss.head_over_batch ? "batch" : "sample"},
               {"measurements", loop.measurements},
               {"distill", loop.loss.distill},
               {"distill_every", loop.loss.distill_every},
               {"distill_from", dense_model_name(run.teacher)},
               {"multiplier_start", loop.multiplier->start},
               {"multiplier_rate", loop.multiplier->rate},
               {"multiplier_highest", loop.multiplier->highest},
               {"control", run.control}});
  if (run.gate == GateKind::kIdle)
    json.update({{"idle", run.gate_idle.value_or(kDefaultIdle)},
                 {"learn_idle", weights.learn_idle},
                 {"idle_learning_rate", loop.idle_rate}});
  if (loop.schedule.head_penalty_end) json["head_penalty_end"] = *loop.schedule.head_penalty_end;
  if (run.target_slack) json["target_slack"] = *run.target_slack;
  if (run.frontier > 0) json["frontier"] = run.frontier;
  if (run.compact)
    json.update({{"compact", *run.compact},
                 {"compact_share", loop.schedule.rounding},
                 {"compact_ramp", loop.schedule.rounding_ramp}});
  return json;
}

}  // namespace openwork
