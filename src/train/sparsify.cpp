#include "train/sparsify.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <map>

#include "base/error.h"
#include "base/progress.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "io/model_store.h"
#include "model/adapter.h"
#include "model/architecture.h"
#include "model/load.h"
#include "model/save.h"
#include "train/initialise.h"
#include "train/tokenizer_files.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

Transformer open_start(const RunOptions& options) {
  if (options.random) return draw_model(read_config_file(options.model_path), options.loop.seed);
  if (options.adapter) return load_adapted_model(options.model_path, *options.adapter);
  return load_model(options.model_path);
}

Transformer move_to(const Transformer& model, at::ScalarType dtype, const at::Device& device) {
  NamedTensors moved;
  for (const auto& [name, tensor] : model.parameters()) {
    const bool bias = name.ends_with(".gate_bias");
    moved.emplace_back(name, tensor.detach().to(device, bias ? at::kFloat : dtype));
  }
  return {model.config(), std::move(moved)};
}

// What a checkpoint must agree with.
nlohmann::json identify(const RunOptions& options, const Batches& batches, const ModelConfig& config) {
  const LoopOptions& loop = options.loop;
  nlohmann::json identity = {{"model", options.random ? "random" : model_hash(options.model_path)},
                             {"gate", gate_name(config.gate)},
                             {"context", batches.context()},
                             {"blocks", batches.blocks()},
                             {"batch", loop.batch},
                             {"seed", loop.seed},
                             {"learning_rate", loop.learning_rate},
                             {"weight_decay", loop.adamw.weight_decay},
                             {"dtype", c10::toString(options.weights.dtype)}};
  if (config.gate == GateKind::kNone) return identity;
  identity.update({{"target", loop.target},
                   {"target_slack", loop.schedule.target_slack},
                   {"learn_bias", options.weights.learn_bias},
                   {"bias_rate", loop.bias_rate},
                   {"penalty_weight", loop.loss.penalty_weight},
                   {"head_penalty", loop.loss.head_penalty},
                   {"distill", loop.loss.distill},
                   {"gate_bias", options.gate_bias ? nlohmann::json(*options.gate_bias) : nlohmann::json()},
                   {"gate_bias_shift", loop.schedule.bias_shift}});
  return identity;
}

void save_result(const RunOptions& options, const TrainedWeights& weights, const fs::path& folder) {
  copy_tokenizer(options.tokenizer_path, folder);
  if (weights.options().lora) {
    const std::string base = fs::exists(options.model) ? fs::absolute(options.model).string() : options.model;
    save_adapter(folder, weights.config(), *weights.options().lora, weights.export_adapter(), base);
  } else if (weights.options().delta) {
    NamedTensors start;
    for (const auto& [name, tensor] : weights.start()) start.emplace_back(name, tensor.cpu());
    save_delta(folder, weights.config(), weights.export_parameters(),
               {options.model, options.model_path, start}, *weights.options().delta);
  } else {
    save_model(folder, weights.config(), weights.export_parameters(), options.save_dtype);
  }
}

// The model as whoever opens the folder will have it. An adapter of drawn weights has no base on disk.
Transformer open_result(const RunOptions& options, const TrainedWeights& weights, const fs::path& folder) {
  const LoadOptions load{at::kFloat, options.weights.device};
  if (weights.options().delta) return load_delta_model(options.model_path, folder, load);
  if (!weights.options().lora) return load_model(folder, load);
  if (!options.random) return load_adapted_model(options.model_path, folder, load);
  return move_to({weights.config(), weights.export_parameters()}, at::kFloat, options.weights.device);
}

// Phases 2 and 3: trains, saves, opens what was saved and measures that.
TrainedModel train_and_measure(const RunOptions& options, StartingPoint start, LoopOptions loop,
                               Batches& batches, const Transformer* dense, const Evaluate& evaluate) {
  TrainedModel result;
  loop.identity = identify(options, batches, start.config);
  loop.measure = [&](const Transformer& model) {
    const Evaluation now = evaluate(model, loop.name);
    return HeldOutPoint{now.nats_per_token, now.kept_edges};
  };
  WeightOptions weight_options = options.weights;
  weight_options.seed = loop.seed;
  if (options.compact) weight_options.delta = plan_delta(start.config, *options.compact);
  TrainedWeights weights(std::move(start.config), start.parameters, weight_options);
  start.parameters.clear();
  result.training = run_loop(weights, batches, dense, loop);
  if (result.training.signal != 0) return result;
  loop.ranks->run_first([&] { save_result(options, weights, loop.folder); });
  result.held_out = evaluate(open_result(options, weights, loop.folder), loop.name);
  return result;
}

// Phase 1. Measured once: a resumed run reads it.
Evaluation measure_base(const RunOptions& options, const Transformer& base, const Evaluate& evaluate) {
  const fs::path file = options.out / "base.json";
  Ranks& ranks = *options.loop.ranks;
  if (ranks.decide(options.loop.resume && fs::exists(file)))
    return evaluation_from_json(read_json_file(file));
  const Evaluation result = evaluate(move_to(base, at::kFloat, options.weights.device), "base");
  ranks.run_first([&] {
    fs::create_directories(options.out);
    write_text_file(file, to_json(result).dump(1) + "\n");
  });
  return result;
}

TrainedModel run_control(const RunOptions& options, const Transformer& base, Batches& batches,
                         const Evaluate& evaluate) {
  const fs::path folder = options.out / "control", file = folder / "result.json";
  Ranks& ranks = *options.loop.ranks;
  if (ranks.decide(options.loop.resume && fs::exists(file)))
    return trained_model_from_json(read_json_file(file));
  LoopOptions loop = options.loop;
  loop.name = "control";
  loop.folder = folder;
  loop.multiplier.reset();
  loop.loss.distill = 0;
  RunOptions whole = options;
  whole.compact.reset();
  const TrainedModel result = train_and_measure(whole, remove_gates(base), loop, batches, nullptr, evaluate);
  if (result.training.signal == 0)
    ranks.run_first([&] { write_text_file(file, to_json(result).dump(1) + "\n"); });
  return result;
}

}  // namespace

void check_run_folder(const RunOptions& options) {
  std::error_code ignored;
  const bool used = fs::exists(options.out / "checkpoints", ignored) ||
                    fs::exists(options.out / "control", ignored) ||
                    fs::exists(options.out / "model.safetensors", ignored) ||
                    fs::exists(options.out / "metrics.jsonl", ignored);
  if (used && !options.loop.resume) {
    fail_input("the folder already holds a run or a model", options.out.string(),
               "use --resume or another --out");
  }
}

double default_gate_bias(GateKind gate) {
  return gate == GateKind::kScore ? 4 : 5;
}

StartingPoint put_gates(const Transformer& base, GateKind gate, std::optional<double> bias) {
  StartingPoint start{base.config(), {}};
  const bool keep = base.config().gate == gate && !bias;
  start.config.gate = gate;
  const std::map<std::string, Tensor> own(base.parameters().begin(), base.parameters().end());
  for (const ParameterSpec& spec :
       list_parameters(architecture_named(start.config.architecture, "model"), start.config)) {
    const bool fresh = spec.role == Role::kGateBias && !keep;
    start.parameters.emplace_back(
        spec.name,
        fresh ? at::full(spec.shape, bias.value_or(default_gate_bias(gate)), at::kFloat) : own.at(spec.name));
  }
  return start;
}

StartingPoint remove_gates(const Transformer& base) {
  StartingPoint start{base.config(), {}};
  start.config.gate = GateKind::kNone;
  for (const auto& [name, tensor] : base.parameters()) {
    if (!name.ends_with(".gate_bias")) start.parameters.emplace_back(name, tensor);
  }
  return start;
}

RunReport run_training(const RunOptions& options, Batches& batches, const Evaluate& evaluate) {
  options.loop.ranks->run_first([&] { check_run_folder(options); });
  if (options.adapter && options.weights.lora) {
    fail_input("the model is an adapter already", options.model,
               "train all its weights (--full), or start from its base");
  }
  RunReport report;
  report.verb = options.verb, report.model = options.model, report.command = options.command;
  report.seed = options.loop.seed;
  report.result_name = options.gate == GateKind::kNone ? "trained" : "sparse";
  const Transformer base = open_start(options);
  LoopOptions loop = options.loop;
  loop.name = options.verb;
  loop.folder = options.out;

  // 1. Where the base stands, and with it the target.
  if (options.gate != GateKind::kNone) {
    report.base = measure_base(options, base, evaluate);
    loop.target = options.target_loss.value_or(report.base->nats_per_token + options.tolerance);
    note(fmt::format("base: {:.4f} nats/token held out", report.base->nats_per_token));
  }
  // 2. The dense control: same data, same steps, no gates.
  if (options.control) {
    report.control = run_control(options, base, batches, evaluate);
    if (report.control->training.signal != 0) {
      report.result.training.signal = report.control->training.signal;
      return report;
    }
    if (options.target_from_control) {
      loop.target = options.tolerance;
      loop.target_curve = LossCurve(options.out / "control" / "metrics.jsonl");
    }
  }
  // 3. The run itself.
  const bool gated = options.gate != GateKind::kNone;
  if (gated) {
    if (loop.target_curve.empty()) report.target = loop.target;
    note(loop.target_curve.empty()
             ? fmt::format("target: {:.4f} nats/token", loop.target)
             : fmt::format("target: the control's loss plus {:.4f} nats/token", loop.target));
  }
  if (gated && options.gate_bias_end) {
    loop.schedule.bias_shift =
        *options.gate_bias_end - options.gate_bias.value_or(default_gate_bias(options.gate));
  }
  std::optional<Transformer> dense;
  if (gated && loop.loss.distill > 0) {
    StartingPoint teacher = remove_gates(base);
    dense.emplace(
        move_to({teacher.config, teacher.parameters}, options.weights.dtype, options.weights.device));
  }
  report.result = train_and_measure(
      options, gated ? put_gates(base, options.gate, options.gate_bias) : remove_gates(base), loop, batches,
      dense ? &*dense : nullptr, evaluate);
  report.curves = read_curves(options.out / "metrics.jsonl");
  if (options.control) report.control_curves = read_curves(options.out / "control" / "metrics.jsonl");
  return report;
}

}  // namespace openwork
