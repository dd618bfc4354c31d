// openwork sparsify: gates every attention edge of a model and post-trains it until few are left, at its own
// loss.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "cli/sparsify_options.h"
#include "cli/verbs.h"
#include "io/model_store.h"
#include "model/adapter.h"
#include "model/load.h"
#include "shell/open.h"
#include "train/initialise.h"
#include "train/memory.h"
#include "train/run_once.h"
#include "train/run_options.h"

namespace openwork {
namespace {

void settle_gates(RunOptions& run, const CLI::App& verb) {
  if (run.gate_bias_end && !run.gate_bias)
    run.gate_bias = default_gate_bias(run.gate);  // a way needs its beginning
  if (run.gate_idle_end && !run.gate_idle) run.gate_idle = kDefaultIdle;
  // Learned unless a way is given or learning is refused.
  const std::vector<std::string>& said = verb.get_option("--learn-bias")->results();
  if (std::set(said.begin(), said.end()).size() > 1)
    fail_input("--learn-bias and --no-learn-bias together", "command line", "choose one of the two");
  run.weights.learn_bias = said.empty() ? !run.gate_bias_end : run.weights.learn_bias;
  if (!run.weights.learn_bias)
    refuse_options(verb, {"--bias-lr"}, said.empty() ? "with --gate-bias-end" : "with --no-learn-bias",
                   "b is not learned so: add --learn-bias, or leave the rate out");
  if (run.gate != GateKind::kIdle)
    refuse_options(verb, {"--idle", "--idle-end", "--learn-idle", "--idle-lr"},
                   fmt::format("with --gate {}", gate_name(run.gate)), "an idle key is of --gate idle alone");
  if (!run.weights.learn_idle)
    refuse_options(verb, {"--idle-lr"}, "without --learn-idle", "add it, or leave the rate out");
  Schedule& schedule = run.loop.schedule;
  if (!is_given(verb, "--sharpness-end")) schedule.sharpness_end = schedule.sharpness;
}

// A start that was given stays: a bound that was not makes room for it.
void settle_multiplier(MultiplierOptions& multiplier, const CLI::App& verb) {
  double &start = multiplier.start, &lowest = multiplier.lowest, &highest = multiplier.highest;
  if (!is_given(verb, "--multiplier-start")) {
    start = std::clamp(start, lowest, highest);
    return;
  }
  if (!is_given(verb, "--multiplier-min")) lowest = std::min(lowest, start);
  if (!is_given(verb, "--multiplier-max")) highest = std::max(highest, start);
  if (start < lowest || start > highest)
    fail_input(fmt::format("--multiplier-start {} is not from {} to {}", start, lowest, highest),
               "command line", "let it lie within --multiplier-min and --multiplier-max");
}

void settle_target(SparsifyOptions& options, const CLI::App& verb) {
  RunOptions& run = options.training.run;
  run.target = parse_dense_model(options.target, "--target");
  run.teacher = parse_dense_model(options.teacher, "--distill-from");
  if (run.loop.loss.distill == 0)
    refuse_options(verb, {"--distill-from", "--distill-every"},
                   is_given(verb, "--distill") ? "with --distill 0" : "without --distill",
                   "give --distill a weight, or leave it out");
  if (run.target == DenseModel::kControl || run.teacher == DenseModel::kControl || run.frontier > 0)
    run.control = true;
  if (run.target_from_control) return;
  // The gap to the training loss is measured on the way (train/target.h).
  int64_t& measurements = run.loop.measurements;
  measurements = is_given(verb, "--measurements") ? std::max<int64_t>(measurements, 10) : 40;
}

void settle_head_penalty(SparsifyOptions& options, const CLI::App& verb) {
  LossOptions& loss = options.training.run.loop.loss;
  loss.head_form = parse_head_form(options.head_form, "--head-penalty-form");
  loss.head_over_batch = options.head_over == "batch";
  if (loss.head_form == HeadForm::kSqrt)
    refuse_options(verb, {"--head-penalty-knee"}, "with --head-penalty-form sqrt",
                   "a root has no knee: leave it out");
}

// Of the gated model, from its configuration alone.
void say_memory(const TrainingOptions& options, ModelConfig config) {
  const RunOptions& run = options.run;
  config.gate = run.gate;
  const WeightOptions weights = weights_of_run(run, run.loop, config);
  MemoryNeed need = predict_memory(config, weights, run.loop, options.context);
  if (weights.device.is_cpu()) need.program = resident_bytes();
  print_result(options.common,
               fmt::format("memory{}: {}", weights.ranks > 1 ? " per rank" : "", describe(need)));
  if (options.common.json.empty()) return;
  nlohmann::json protocol = make_protocol(options.common);
  protocol.update({{"model", describe_run_model(run)}, {"data", describe_data_files(options.data)}});
  write_json_result(options.common, {{"memory", to_json(need)},
                                     {"options", describe_options(run, options.context)},
                                     {"protocol", protocol}});
}

void settle(SparsifyOptions& options, const CLI::App& verb) {
  RunOptions& run = options.training.run;
  const LocatedModel located = locate_model(run.model);
  run.model_path = run.tokenizer_path = located.path;
  run.adapter = located.adapter;
  run.random = options.start == "random";
  if (options.gate == "none") {
    // The dense control alone is the same run with neither gates nor a target.
    refuse_options(verb, options.of_gates, "with --gate none",
                   "the dense control has no gates: leave it out");
    run.gate = GateKind::kNone;
  } else {
    run.gate = parse_gate(options.gate, "--gate");
    settle_gates(run, verb);
  }
  settle_target(options, verb);
  settle_head_penalty(options, verb);
  if (run.gate != GateKind::kNone) run.loop.multiplier = options.multiplier;
  const bool lora = is_given(verb, "--lora"), whole_modules = is_given(verb, "--lora-full");
  if (lora && options.full) fail_input("--full and --lora together", "command line", "choose one of the two");
  if (whole_modules && !lora)
    fail_input("--lora-full without --lora", "command line", "give a rank for the other modules, or --full");
  if (!lora)
    refuse_options(verb, {"--lora-targets", "--lora-alpha"}, "without --lora",
                   "give a rank: --lora R, or leave it out");
  if (lora) {
    run.weights.lora = options.lora;
    run.weights.lora->alpha =
        options.lora_alpha > 0 ? options.lora_alpha : static_cast<double>(options.lora.rank);
  }
  if (!run.compact) {
    refuse_options(verb, {"--compact-share", "--compact-ramp"}, "without --compact",
                   "say with --compact how large the difference may be");
  } else if (!is_given(verb, "--compact-share")) {
    run.loop.schedule.rounding = 0.3;
  }
  check_run_options(run);
  if (run.loop.multiplier) settle_multiplier(*run.loop.multiplier, verb);
  run.loop.learning_rate = lora && !whole_modules ? 7e-4 : 3e-4;
  const ModelConfig config = run.random ? read_config_file(located.path) : load_config(located.path);
  if (lora) find_lora_targets(config, *run.weights.lora);  // says which it does not know, before any work
  settle_training_options(options.training, config.context);
  if (options.training.memory_only) return say_memory(options.training, config);
  const Tokenizer tokenizer = open_tokenizer(run.model);
  run_and_report(options.training, tokenizer, end_of_text(tokenizer, config), config.vocabulary);
}

}  // namespace

void add_sparsify_verb(CLI::App& app) {
  auto options = std::make_shared<SparsifyOptions>();
  options->training.run.verb = "sparsify";
  options->training.run.loop.loss.head_penalty = 0.5;
  options->training.batch_tokens = 0;  // chosen by the device
  CLI::App* verb = add_verb(app, "sparsify");
  verb->add_option("MODEL", options->training.run.model, "the model to start from")->required();
  const size_t before = verb->get_options().size();
  add_gate_options(*verb, *options);
  add_target_options(*verb, *options);
  const std::vector<CLI::Option*> all = verb->get_options();
  for (size_t n = before; n < all.size(); ++n) options->of_gates.push_back(all[n]->get_name());
  std::erase(options->of_gates, "--gate");
  add_form_options(*verb, *options);
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
      "--lr is 3e-4 unless given, 7e-4 with --lora but without --lora-full. Gates are fp32; weights compute "
      "in bf16 on a GPU unless "
      "--dtype fp32.\n"
      "Training aims at the target plus the gap between training and held-out loss, measured on the way.\n"
      "Examples:\n"
      "  openwork sparsify gpt2 --data text.jsonl --minutes 20 --out sparse-gpt2\n"
      "  openwork sparsify openwork-8m --data train.txt.xz --target control --tolerance 0.02 --minutes 20 "
      "--out "
      "sparse-8m\n"
      "  openwork sparsify gpt2 --data text.jsonl --frontier 3 --minutes 60 --out frontier\n"
      "  openwork sparsify big/ --lora 64 --lora-full attention --data text.jsonl --steps 2000 --out adapter "
      "--resume");
  verb->callback([options, verb] {
    apply_common_options(options->training.common);
    settle(*options, *verb);
  });
}

}  // namespace openwork
