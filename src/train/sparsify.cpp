#include "train/sparsify.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "base/progress.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "model/adapter.h"
#include "model/load.h"
#include "train/frontier.h"
#include "train/initialise.h"
#include "train/run_once.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;
constexpr double kSlack = 0.03;  // nats a falling learning rate is sure to win back

Transformer open_start(const RunOptions& options) {
  if (options.random) return draw_model(read_config_file(options.model_path), options.loop.seed);
  if (options.adapter) return load_adapted_model(options.model_path, *options.adapter);
  return load_model(options.model_path);
}

// Phase 1: the base on all held-out blocks, and how much more that is than on those measured on the way,
// which are shifted by it. Measured once: a resumed run reads it where model and blocks are the same.
Evaluation measure_base(SharedRun& run, const Transformer& base) {
  const RunOptions& options = run.options;
  const fs::path file = options.out / "base.json";
  Ranks& ranks = *options.loop.ranks;
  nlohmann::json identity = {{"data", options.data},
                             {"seed", options.loop.seed},
                             {"context", run.batches.context()},
                             {"held_out_blocks", options.held_out_blocks}};
  identity.update(run.model);
  if (ranks.decide(options.loop.resume && fs::exists(file))) {
    const nlohmann::json saved = read_json_file(file);
    // Without the first it is of an older program; without an identity of one that did not ask.
    if (saved.contains("offset_on_the_way") && saved.value("identity", identity) == identity) {
      run.offset = saved.at("offset_on_the_way");
      return evaluation_from_json(saved);
    }
  }
  const Transformer model = move_to(base, at::kFloat, options.weights.device);
  const Evaluation result = run.evaluate(model, "base", HeldOutPart::kAll);
  run.offset = result.nats_per_token - run.evaluate(model, "base", HeldOutPart::kOnTheWay).nats_per_token;
  ranks.run_first([&] {
    make_folder(options.out);
    nlohmann::json saved = to_json(result);
    saved.update({{"offset_on_the_way", run.offset}, {"identity", identity}});
    write_text_file(file, saved.dump(1) + "\n");
  });
  return result;
}

// Phase 2.
TrainedModel run_control(const SharedRun& run, const Transformer& base) {
  LoopOptions loop = run.options.loop;
  loop.name = "control";
  loop.folder = run.options.out / "control";
  loop.multiplier.reset();
  return train_once(run, loop, GateKind::kNone, [&] { return remove_gates(base); });
}

// Where the run shall end, from what phases 1 and 2 found.
void settle_target(const RunOptions& options, RunReport& report, LoopOptions& loop) {
  const auto control = [&] {
    const fs::path metrics = options.out / "control" / "metrics.jsonl";
    return HeldOutCurve(metrics, static_cast<double>(report.control->training.tokens),
                        report.control->held_out.nats_per_token);
  };
  if (options.target_from_control) {
    loop.target = options.tolerance;
    loop.target_curve = LossCurve(options.out / "control" / "metrics.jsonl");
    loop.schedule.target_slack = options.target_slack.value_or(0);
    note(fmt::format("target: the control's training loss plus {:.4f} nats/token", loop.target));
    return;
  }
  const bool of_control = options.target == DenseModel::kControl && !options.target_loss;
  HeldOutTarget target;
  target.wanted = options.target_loss.value_or(
      (of_control ? report.control->held_out : *report.base).nats_per_token + options.tolerance);
  if (report.control) target.control = control(), target.margin = of_control ? options.tolerance : kSlack;
  loop.held_out_target = target;
  loop.schedule.target_slack = options.target_slack.value_or(report.control ? 0 : kSlack);
  report.target = RunTarget{options.target_loss ? "loss" : dense_model_name(options.target),
                            options.target_loss ? 0 : options.tolerance, target.wanted};
  if (options.frontier == 0) note(fmt::format("target: {:.4f} nats/token held out", target.wanted));
}

// The ways that gates go, whose beginnings are the run's.
void settle_gates(const RunOptions& options, Schedule& schedule) {
  if (options.gate_bias_end)
    schedule.bias_shift =
        *options.gate_bias_end - options.gate_bias.value_or(default_gate_bias(options.gate));
  if (options.gate_idle_end)
    schedule.idle_shift = *options.gate_idle_end - options.gate_idle.value_or(kDefaultIdle);
}

RunReport start_report(const RunOptions& options) {
  RunReport report;
  report.verb = options.verb, report.model = options.model, report.command = options.command;
  report.seed = options.loop.seed;
  const bool gated = options.gate != GateKind::kNone;
  report.result_name = gated ? "sparse" : options.random ? "trained" : "control";
  return report;
}

// Whose predictions the gated model is held near: the base's without gates, or the control's, phase 2.
Transformer open_teacher(const RunOptions& options, const Transformer& base) {
  const WeightOptions& weights = options.weights;
  if (options.teacher == DenseModel::kControl)
    return move_to(open_control(options), weights.dtype, weights.device);
  StartingPoint teacher = remove_gates(base);
  return move_to({teacher.config, teacher.parameters}, weights.dtype, weights.device);
}

// Phase 3. What is started from is let go of where nothing else will ask for it.
void run_itself(SharedRun& run, std::optional<Transformer> base, LoopOptions loop, RunReport& report) {
  const RunOptions& options = run.options;
  const bool gated = options.gate != GateKind::kNone;
  std::optional<Transformer> dense;
  if (gated && loop.loss.distill > 0) {
    dense.emplace(open_teacher(options, *base));
    run.dense = &*dense;
  }
  if (options.frontier > 0) {
    run_frontier(run, *base, loop, report);
  } else {
    StartingPoint start =
        gated ? put_gates(*base, options.gate, options.gate_bias, options.gate_idle) : remove_gates(*base);
    base.reset();
    report.result = train_and_measure(run, std::move(start), loop);
  }
  if (report.target) report.target->gap = report.result.training.gap;
}

// Of the run; of a frontier of all its points, one after the other.
TrainingCurves read_all_curves(const RunReport& report, const std::filesystem::path& out) {
  if (report.frontier.empty()) return read_curves(out / "metrics.jsonl");
  TrainingCurves curves;
  int64_t tokens = 0;
  for (const FrontierPoint& point : report.frontier) {
    append_curves(curves, read_curves(out / point.folder / "metrics.jsonl"),
                  static_cast<double>(std::exchange(tokens, point.tokens)));
  }
  return curves;
}

}  // namespace

const char* dense_model_name(DenseModel model) {
  return model == DenseModel::kControl ? "control" : "base";
}

DenseModel parse_dense_model(const std::string& name, const std::string& where) {
  for (const DenseModel model : {DenseModel::kBase, DenseModel::kControl})
    if (name == dense_model_name(model)) return model;
  fail_input(fmt::format("unknown dense model '{}'", printable(name, 40)), where, "use base or control");
}

void check_run_folder(const RunOptions& options) {
  std::error_code ignored;
  bool used = false;
  for (const char* name : {"checkpoints", "control", "point-1", "model.safetensors", "metrics.jsonl"})
    used = used || fs::exists(options.out / name, ignored);
  if (used && !options.loop.resume) {
    fail_input("the folder already holds a run or a model", options.out.string(),
               "use --resume or another --out");
  }
}

std::unique_ptr<FolderLock> make_run_folder(const RunOptions& options) {
  auto lock = std::make_unique<FolderLock>(options.out, FolderLock::IfHeld::kRefuse);
  check_run_folder(options);
  return lock;
}

RunReport run_training(const RunOptions& options, Batches& batches, const Evaluate& evaluate) {
  options.loop.ranks->run_first([&] { check_run_folder(options); });
  RunReport report = start_report(options);
  SharedRun run{options, batches, evaluate, identify_model(options)};
  std::optional<Transformer> base = open_start(options);
  const bool gated = options.gate != GateKind::kNone;
  LoopOptions loop = options.loop;
  loop.name = options.verb;
  loop.folder = options.out;
  // 1. Where the base stands.
  if (gated || !options.random) {
    report.base = measure_base(run, *base);
    note(fmt::format("base: {:.4f} nats/token held out", report.base->nats_per_token));
  }
  // 2. The dense control: same data, same steps, no gates.
  if (options.control) {
    report.control = run_control(run, *base);
    if (report.control->training.signal != 0) {
      report.result.training.signal = report.control->training.signal;
      return report;
    }
  }
  // 3. The run itself, and with it the target.
  if (gated) {
    settle_gates(options, loop.schedule);
    settle_target(options, report, loop);
  }
  run_itself(run, std::exchange(base, std::nullopt), loop, report);
  report.curves = read_all_curves(report, options.out);
  if (options.control) report.control_curves = read_curves(options.out / "control" / "metrics.jsonl");
  return report;
}

}  // namespace openwork
