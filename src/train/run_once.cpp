#include "train/run_once.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <utility>

#include "base/progress.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "io/model_store.h"
#include "io/sha256.h"
#include "model/adapter.h"
#include "model/load.h"
#include "model/save.h"
#include "text/tokenizer_files.h"
#include "train/identity.h"
#include "train/initialise.h"
#include "train/memory.h"
#include "train/weight_exchange.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

nlohmann::json number_or_null(const std::optional<double>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

// What a checkpoint must agree with.
nlohmann::json identify(const SharedRun& run, const LoopOptions& loop, GateKind gate) {
  const RunOptions& options = run.options;
  nlohmann::json identity = {{"gate", gate_name(gate)},
                             {"context", run.batches.context()},
                             {"blocks", run.batches.blocks()},
                             {"batch", loop.batch},
                             {"seed", loop.seed},
                             {"learning_rate", loop.learning_rate},
                             {"weight_decay", loop.adamw.weight_decay},
                             {"clip", loop.adamw.clip},
                             {"warmup", loop.schedule.warmup},
                             {"decay", loop.schedule.decay},
                             {"data", options.data},
                             {"dtype", c10::toString(options.weights.dtype)}};
  identity.update(run.model);
  if (const auto& lora = options.weights.lora)
    identity.update({{"lora", lora->rank}, {"lora_alpha", lora->alpha}, {"lora_targets", lora->targets}});
  if (options.weights.lora && !options.weights.lora->full.empty())
    identity["lora_full"] = options.weights.lora->full;
  if (!loop.lengths.empty()) identity["lengths"] = loop.lengths;
  if (gate == GateKind::kNone) return identity;
  const HeldOutTarget* held_out = loop.held_out_target ? &*loop.held_out_target : nullptr;
  identity.update({{"target", held_out ? held_out->wanted : loop.target},
                   {"target_is", held_out ? "held_out" : "training"},
                   {"target_slack", loop.schedule.target_slack},
                   {"measurements", loop.measurements},
                   {"learn_bias", options.weights.learn_bias},
                   {"bias_rate", loop.bias_rate},
                   {"learn_idle", options.weights.learn_idle},
                   {"idle_rate", loop.idle_rate},
                   {"penalty_weight", loop.loss.penalty_weight},
                   {"head_penalty", loop.loss.head_penalty},
                   {"head_penalty_form", head_form_name(loop.loss.head_form)},
                   {"head_penalty_over", loop.loss.head_over_batch ? "batch" : "sample"},
                   {"distill", loop.loss.distill},
                   {"distill_every", loop.loss.distill_every},
                   {"noise_anneal", loop.schedule.noise_anneal},
                   {"compact", number_or_null(options.compact)},
                   {"compact_share", loop.schedule.rounding},
                   {"gate_bias", number_or_null(options.gate_bias)},
                   {"gate_bias_shift", loop.schedule.bias_shift},
                   {"gate_idle", number_or_null(options.gate_idle)},
                   {"gate_idle_shift", loop.schedule.idle_shift},
                   {"sharpness", {loop.schedule.sharpness, loop.schedule.sharpness_end}}});
  if (loop.schedule.rounding_ramp > 0) identity["compact_ramp"] = loop.schedule.rounding_ramp;
  if (loop.loss.head_knee != kHeadKnee) identity["head_penalty_knee"] = loop.loss.head_knee;
  if (loop.schedule.head_penalty_end) identity["head_penalty_end"] = *loop.schedule.head_penalty_end;
  if (options.teacher == DenseModel::kControl) identity["distill_from"] = dense_model_name(options.teacher);
  if (const auto& multiplier = loop.multiplier)
    identity.update({{"multiplier_rate", multiplier->rate},
                     {"multiplier_min", multiplier->lowest},
                     {"multiplier_max", multiplier->highest}});
  return identity;
}

// What the result of a run that has ended must agree with: nothing of it is done again.
nlohmann::json identify_result(const SharedRun& run, const LoopOptions& loop, GateKind gate) {
  nlohmann::json identity = identify(run, loop, gate);
  identity.update(
      {{"steps", loop.steps}, {"minutes", loop.minutes}, {"held_out_blocks", run.options.held_out_blocks}});
  return identity;
}

// `trained`: all masters where the weights have a share of them (weight_exchange.h).
void save_result(const RunOptions& options, const TrainedWeights& weights, const Tensor& trained,
                 const fs::path& folder) {
  copy_tokenizer(options.tokenizer_path, folder);
  if (weights.options().lora) {
    const std::string base = fs::exists(options.model) ? fs::absolute(options.model).string() : options.model;
    save_adapter(folder, weights.config(), *weights.options().lora, weights.export_adapter(trained), base,
                 options.save_dtype);
  } else if (weights.options().delta) {
    NamedTensors origin;
    for (const auto& [name, tensor] : weights.origin()) origin.emplace_back(name, tensor.cpu());
    save_delta(folder, weights.config(), weights.export_parameters(trained),
               {options.model, options.model_path, origin}, *weights.options().delta);
  } else {
    save_model(folder, weights.config(), weights.export_parameters(trained), options.save_dtype);
  }
}

// The model as whoever opens the folder will have it. An adapter of drawn weights has no base on disk.
Transformer open_result(const RunOptions& options, const TrainedWeights& weights, const Tensor& trained,
                        const fs::path& folder) {
  const LoadOptions load{at::kFloat, options.weights.device};
  if (weights.options().delta) return load_delta_model(options.model_path, folder, load);
  if (!weights.options().lora) return load_model(folder, load);
  if (!options.random) return load_adapted_model(options.model_path, folder, load);
  return move_to({weights.config(), weights.export_parameters(trained)}, at::kFloat, options.weights.device);
}

// What the run will take, said before it takes it.
MemoryNeed announce_memory(const StartingPoint& start, const WeightOptions& weights, const LoopOptions& loop,
                           int64_t context) {
  MemoryNeed need = predict_memory(start.config, weights, loop, context);
  if (weights.device.is_cpu()) need.program = resident_bytes() - owned_bytes(start.parameters);
  note(
      fmt::format("{}: memory{}: {}", loop.name, loop.ranks->count() > 1 ? " per rank" : "", describe(need)));
  return need;
}

int64_t largest_of_ranks(int64_t bytes, Ranks& ranks) {
  const Tensor number = at::tensor({static_cast<double>(bytes)}, at::kDouble);
  ranks.start_max(number)();
  return static_cast<int64_t>(number.item<double>());
}

}  // namespace

nlohmann::json identify_model(const RunOptions& options) {
  if (options.random)
    return {{"model", "random"},
            {"config", sha256_of_bytes(read_config_file(options.model_path).source.dump())}};
  nlohmann::json identity = {{"model", model_hash(options.model_path)}};
  if (options.adapter) identity["adapter"] = model_hash(*options.adapter);
  return identity;
}

WeightOptions weights_of_run(const RunOptions& options, const LoopOptions& loop, const ModelConfig& config) {
  WeightOptions weights = options.weights;
  weights.seed = loop.seed;
  weights.rank = loop.ranks->rank(), weights.ranks = loop.ranks->count();
  if (options.compact && config.gate != GateKind::kNone) weights.delta = plan_delta(config, *options.compact);
  return weights;
}

TrainedModel train_and_measure(const SharedRun& run, StartingPoint start, LoopOptions loop) {
  const RunOptions& options = run.options;
  TrainedModel result;
  loop.identity = identify(run, loop, start.config.gate);
  loop.measure = [&](const Transformer& model) {
    const Evaluation now = run.evaluate(model, loop.name, HeldOutPart::kOnTheWay);
    return HeldOutPoint{now.nats_per_token + run.offset, now.kept_edges};
  };
  const WeightOptions weight_options = weights_of_run(options, loop, start.config);
  const bool gated = start.config.gate != GateKind::kNone;
  const MemoryNeed need = announce_memory(start, weight_options, loop, run.batches.context());
  const PeakMemory peak(weight_options.device);
  TrainedWeights weights(std::move(start.config), std::move(start.parameters), weight_options, start.origin);
  return_freed_memory();
  result.training = run_loop(weights, run.batches, gated ? run.dense : nullptr, loop);
  if (result.training.signal != 0) return result;
  weights.release_gradients();
  return_freed_memory();
  Tensor trained = gather_masters(weights, *loop.ranks, weight_options.lora.has_value());
  loop.ranks->run_first([&] { save_result(options, weights, trained, loop.folder); });
  const Transformer saved = open_result(options, weights, std::exchange(trained, Tensor()), loop.folder);
  result.held_out = run.evaluate(saved, loop.name, HeldOutPart::kAll);
  result.training.predicted_memory = to_json(need);
  result.training.peak_memory = largest_of_ranks(peak.bytes(), *loop.ranks);
  return result;
}

TrainedModel train_once(const SharedRun& run, const LoopOptions& loop, GateKind gate,
                        const std::function<StartingPoint()>& start) {
  const fs::path file = loop.folder / "result.json";
  Ranks& ranks = *loop.ranks;
  const nlohmann::json identity = identify_result(run, loop, gate);
  if (ranks.decide(loop.resume && fs::exists(file))) {
    const nlohmann::json saved = read_json_file(file);
    if (saved.contains("kept_edges_by_row")) {  // else of an older program
      check_identity(saved, identity, loop.folder, loop.name);
      return trained_model_from_json(saved);
    }
  }
  const TrainedModel result = train_and_measure(run, start(), loop);
  if (result.training.signal != 0) return result;
  ranks.run_first([&] {
    nlohmann::json saved = to_json(result);
    saved.update({{"version", kStateVersion}, {"identity", identity}});
    write_text_file(file, saved.dump(1) + "\n");
  });
  return result;
}

Transformer open_control(const RunOptions& options) {
  const fs::path folder = options.out / "control";
  return options.weights.lora ? load_adapted_model(options.model_path, folder) : load_model(folder);
}

Transformer open_saved(const RunOptions& options, const fs::path& folder) {
  return options.compact ? load_delta_model(options.model_path, folder, {}) : load_model(folder);
}

}  // namespace openwork
