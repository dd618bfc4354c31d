// openwork ablate: what each head (or a head's query, key or value, or each MLP, or named parts) is worth to
// a task.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "analyze/circuits/ablation.h"
#include "base/interval.h"
#include "base/error.h"
#include "base/progress.h"
#include "cli/open.h"
#include "cli/ranks.h"
#include "cli/task_options.h"
#include "cli/verbs.h"

namespace openwork {
namespace {

struct AblateOptions {
  CommonOptions common;
  TaskOptions task;
  std::string model, ablation = "mean", of = "heads", only, sweep;
  int64_t top = 20;
};

// What is ablated, one after the other.
std::vector<Part> list_parts(const AblateOptions& options, const ModelConfig& config, int64_t tokens) {
  std::vector<Part> parts;
  if (!options.only.empty()) {
    for (const std::string& name : split_names(options.only))
      parts.push_back(parse_part(name, config, tokens));
    return parts;
  }
  static const std::map<std::string, Part::Kind> kinds = {{"heads", Part::Kind::kHead},
                                                          {"q", Part::Kind::kQuery},
                                                          {"k", Part::Kind::kKey},
                                                          {"v", Part::Kind::kValue},
                                                          {"mlp", Part::Kind::kMlp}};
  const Part::Kind kind = kinds.at(options.of);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const int64_t heads = kind == Part::Kind::kMlp ? 1 : config.heads;
    for (int64_t head = 0; head < heads; ++head)
      parts.push_back({kind, static_cast<int32_t>(layer), static_cast<int32_t>(head)});
  }
  return parts;
}

struct Effect {
  std::string name;
  double value = 0;
  Interval interval;
};

std::vector<Effect> measure_effects(AblationRunner& runner, const std::vector<Part>& parts, Sweep& sweep,
                                    uint64_t seed) {
  std::vector<std::string> names;
  std::vector<Intervention> interventions;
  for (const Part& part : parts) names.push_back(to_string(part)), interventions.push_back({part});
  Progress progress("ablate", parts.size(), " parts");
  const std::vector<PromptMetrics> metrics =
      run_sweep(runner, names, interventions, sweep, [&](size_t count) { progress.advance(count); });
  std::vector<Effect> effects;
  const std::vector<double> ones(runner.clean().size(), 1.0);
  for (size_t n = 0; n < parts.size(); ++n) {
    std::vector<double> differences;
    for (size_t p = 0; p < ones.size(); ++p) differences.push_back(runner.clean()[p] - metrics[n][p]);
    effects.push_back({names[n], mean_of(differences), bootstrap_ratio(differences, ones, seed)});
  }
  return effects;
}

void print_effects(const AblateOptions& options, const AblationRunner& runner, std::vector<Effect> effects) {
  print_result(options.common,
               fmt::format("clean {:.4f}   corrupt {:.4f}   ({} ablation)", mean_of(runner.clean()),
                           mean_of(runner.corrupt()), options.ablation));
  std::stable_sort(effects.begin(), effects.end(),
                   [](const Effect& a, const Effect& b) { return a.value > b.value; });
  print_result(options.common, fmt::format("{:<14} {:>9}  95 % interval", "part", "effect"));
  for (size_t n = 0; n < effects.size() && n < static_cast<size_t>(options.top); ++n) {
    print_result(options.common,
                 fmt::format("{:<14} {:>9.4f}  [{:.4f}, {:.4f}]", effects[n].name, effects[n].value,
                             effects[n].interval.low, effects[n].interval.high));
  }
}

nlohmann::json to_json(const AblateOptions& options, const AblationRunner& runner,
                       const std::vector<Effect>& effects) {
  nlohmann::json result = {{"clean_metric", mean_of(runner.clean())},
                           {"corrupt_metric", mean_of(runner.corrupt())},
                           {"ablation", options.ablation}};
  if (!options.only.empty()) {
    result["parts"] = nlohmann::json::array();
    for (const Effect& effect : effects) {
      result["parts"].push_back({{"name", effect.name},
                                 {"effect", effect.value},
                                 {"interval", {effect.interval.low, effect.interval.high}}});
    }
    return result;
  }
  result["of"] = options.of;
  const size_t columns = effects.size() / static_cast<size_t>(runner.config().layers);
  for (size_t n = 0; n < effects.size(); ++n) {
    result["effects"][n / columns].push_back(effects[n].value);
    result["intervals"][n / columns].push_back({effects[n].interval.low, effects[n].interval.high});
  }
  return result;
}

void run_ablate(AblateOptions& options) {
  apply_common_options(options.common);
  nlohmann::json protocol = make_protocol(options.common);  // before ranks take their part of the threads
  const std::shared_ptr<Ranks> ranks = join_ranks(options.common);
  const AblationKind kind = parse_ablation(options.ablation);
  const Transformer model = open_model(options.model, options.common);
  const Task task = open_task(options.model, model, options.task, options.common, options.common.seed);
  AblationRunner runner(model, task, kind, ranks.get());
  const std::vector<Part> parts = list_parts(options, model.config(), runner.tokens());

  protocol.update(describe_task(task));
  protocol.update({{"device", model.device().str()},
                   {"ablation", options.ablation},
                   {"bootstrap", "prompts, 2000 draws"},
                   {"model", describe_model_files(options.model)}});
  KeptSweep kept(options.sweep, options.common, protocol, *ranks);
  kept.guard([&] {
    const std::vector<Effect> effects = measure_effects(runner, parts, kept.sweep(), options.common.seed);
    print_effects(options, runner, effects);
    nlohmann::json result = to_json(options, runner, effects);
    result["protocol"] = protocol;
    result["protocol"]["ranks"] = ranks->count();
    write_json_result(options.common, result);
    kept.sweep().finish();
  });
}

}  // namespace

void add_ablate_verb(CLI::App& app) {
  auto options = std::make_shared<AblateOptions>();
  CLI::App* verb = app.add_subcommand(
      "ablate", "the effect of every head on a task: metric without it taken from metric with it");
  verb->add_option("MODEL", options->model, "the model")->type_name("")->required();
  add_task_options(*verb, options->task);
  verb->add_option("--ablation", options->ablation,
                   "zero, mean (over the corrupt prompts, per position) or interchange")
      ->type_name("KIND")
      ->capture_default_str();
  verb->add_option("--of", options->of, "heads, their inputs q, k or v, or mlp")
      ->check(CLI::IsMember({"heads", "q", "k", "v", "mlp"}))
      ->capture_default_str();
  verb->add_option("--only", options->only, "only these parts: L5H1, L5H1<q>, m3, L5H1:8<-5")
      ->type_name("NAME,...");
  verb->add_option("--top", options->top, "rows of the table")
      ->type_name("N")
      ->check(between(1, 1000000))
      ->capture_default_str();
  verb->add_option("--sweep", options->sweep,
                   "keep what is done in FILE until the end (default: beside --json FILE)")
      ->type_name("FILE");
  add_common_options(*verb, options->common);
  verb->footer(
      "An interrupted sweep goes on where it was when the same command is given again.\n"
      "Examples:\n"
      "  openwork ablate openwork-8m --task copy\n"
      "  openwork ablate openwork-8m --task ioi --ablation interchange --prompts 100 --json effects.json\n"
      "  openwork ablate openwork-8m --task mine.jsonl --only 'L5H6,L6H0<k>,m3,L6H0:30<-5'");
  verb->callback([options] { run_ablate(*options); });
}

}  // namespace openwork
