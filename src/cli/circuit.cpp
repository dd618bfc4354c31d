// openwork circuit: the heads or edges a task needs, how faithful they are, and how models compare.
#include <fmt/format.h>

#include "base/error.h"
#include "base/number_text.h"
#include "cli/verbs.h"
#include "io/atomic_file.h"
#include "io/sha256.h"
#include "report/captions.h"
#include "report/circuit_figure.h"
#include "report/circuit_json.h"
#include "report/circuit_mib.h"
#include "report/circuit_text.h"
#include "shell/open.h"
#include "shell/ranks.h"
#include "shell/task_options.h"

namespace openwork {
namespace {

struct CircuitOptions {
  CommonOptions common;
  TaskOptions task;
  std::vector<std::string> models;
  std::string level, method, ablation, heads, mib, out, sweep;
  CircuitSettings settings;
  int64_t seeds = 1;
};

// What the options say, with each level's own defaults: heads are measured, edges are attributed; graph edges
// are replaced by the corrupt run's values, as MIB does.
void settle_settings(CircuitOptions& options, const CLI::App& verb) {
  CircuitSettings& settings = options.settings;
  if (!options.mib.empty() && options.level.empty()) options.level = "graph-edge";
  if (options.level.empty()) options.level = "head";
  settings.level = options.level == "head"             ? CircuitLevel::kHead
                   : options.level == "attention-edge" ? CircuitLevel::kAttentionEdge
                                                       : CircuitLevel::kGraphEdge;
  if (options.method.empty()) options.method = options.level == "head" ? "exact" : "eap";
  settings.method = options.method == "exact" ? CircuitMethod::kExact
                    : options.method == "eap" ? CircuitMethod::kAttribution
                                              : CircuitMethod::kIntegrated;
  if (options.ablation.empty()) options.ablation = options.level == "graph-edge" ? "interchange" : "mean";
  settings.ablation = parse_ablation(options.ablation);
  settings.seed = options.common.seed;
  if (settings.level != CircuitLevel::kGraphEdge)
    refuse_options(verb, {"--mib"}, fmt::format("with --level {}", options.level), "use --level graph-edge");
  if (options.models.size() > 1) refuse_options(verb, {"--mib"}, "with several models", "give one model");
  if (settings.level != CircuitLevel::kHead)
    refuse_options(verb, {"--greedy", "--heads"}, "with edges", "use --level head");
  if (settings.method == CircuitMethod::kExact)
    refuse_options(verb, {"--agreement"}, "with exact effects",
                   "use --method eap or eap-ig, or leave it out");
  if (options.seeds > 1 && !is_built_in_task(options.task.task))
    fail_input("--seeds with a file", "command line", "a file draws nothing: leave --seeds out");
  if (!options.out.empty()) draw::format_of(options.out);
}

// What the result carries: all that its numbers depend on.
nlohmann::json start_protocol(const CircuitOptions& options) {
  nlohmann::json protocol = make_protocol(options.common);
  protocol.update({{"models", describe_models(options.models)},
                   {"level", options.level},
                   {"method", options.method},
                   {"ablation", options.ablation},
                   {"threshold", options.settings.threshold},
                   {"seeds", options.seeds},
                   {"bootstrap", "prompts, 2000 draws; seeds too where several"}});
  return protocol;
}

std::vector<HeadPlace> parse_heads(const std::string& list, const ModelConfig& config) {
  std::vector<HeadPlace> heads;
  for (const std::string& name : split_names(list)) {
    const Part part = parse_part(name, config, 0);
    if (part.kind != Part::Kind::kHead)
      fail_input(fmt::format("'{}' is no head", printable(name, 60)), "--heads", "write heads as L5H1");
    heads.push_back(part.place());
  }
  return heads;
}

// One model's circuits; fills in the protocol's device and task.
ModelCircuits examine_model(const CircuitOptions& options, const std::string& name, Sweep& sweep,
                            nlohmann::json& protocol) {
  const Transformer model = open_model(name, options.common);
  CircuitRequest request{.settings = options.settings, .named = parse_heads(options.heads, model.config())};
  if (!options.out.empty() && options.common.speaks) request.drawn_edges = kDrawnEdges;
  std::vector<Task> tasks;
  for (int64_t n = 0; n < options.seeds; ++n) {
    tasks.push_back(
        open_task(name, model, options.task, options.common, options.common.seed + static_cast<uint64_t>(n)));
  }
  protocol["device"] = model.device().str();
  protocol.update(describe_task(tasks.front()));
  return find_circuits(model, name, tasks, request, sweep);
}

void draw_models(const CircuitOptions& options, const std::vector<ModelCircuits>& models,
                 const nlohmann::json& protocol) {
  const std::string caption =
      fmt::format("{}, {} ablation, ordered by {} scores; bands: 95 % over prompts. {}",
                  count_of(protocol["prompts"].get<int64_t>(), "prompt"), options.ablation, options.method,
                  describe_protocol(protocol));
  draw::write_figure(draw_circuits(models, options.settings, protocol["task"].get<std::string>(), caption),
                     options.out);
  print_written(options.common, options.out);
}

// Lines, figure, files: what the first rank says.
void report_models(const CircuitOptions& options, const std::vector<ModelCircuits>& models,
                   const nlohmann::json& protocol) {
  for (const ModelCircuits& model : models)
    print_results(options.common, format_circuit(model, options.settings));
  nlohmann::json result = {
      {"models", nlohmann::json::array()}, {"comparison", nlohmann::json::array()}, {"protocol", protocol}};
  for (const ModelCircuits& model : models) result["models"].push_back(to_json(model));
  for (const ModelRatio& ratio : compare_models(models, options.settings)) {
    print_results(options.common,
                  format_circuit_ratio(ratio, options.settings, models.front().circuits.size()));
    result["comparison"].push_back(to_json(ratio));
  }
  if (!options.mib.empty() && options.common.speaks)
    write_text_file(options.mib, to_mib(models.front().shown()).dump(1) + "\n");
  if (!options.mib.empty()) print_written(options.common, options.mib);
  if (!options.out.empty() && options.common.speaks) draw_models(options, models, protocol);
  write_json_result(options.common, result);
}

// The ranks of a job share the passes of each sweep; the first prints, draws and writes.
void run_circuit(CircuitOptions& options, const CLI::App& verb) {
  apply_common_options(options.common);
  settle_settings(options, verb);
  check_models(options.models, "--task");
  if (!options.heads.empty())
    for (const std::string& name : options.models) parse_heads(options.heads, read_config_of(name));
  nlohmann::json protocol = start_protocol(options), key = protocol;
  key.update({{"task", options.task.task}, {"prompts", options.task.prompts}});
  if (!is_built_in_task(options.task.task)) key["task_sha256"] = sha256_of_file(options.task.task);
  const std::shared_ptr<Ranks> ranks = join_ranks(options.common);
  KeptSweep kept(options.sweep, options.common, key, *ranks);
  kept.guard([&] {
    std::vector<ModelCircuits> models;
    for (const std::string& name : options.models) {
      models.push_back(examine_model(options, name, kept.sweep(), protocol));
      if (models.size() == 1) print_result(options.common, format_circuit_header());  // not before an error
      print_result(options.common, format_circuit_row(models.back()));
    }
    protocol["ranks"] = ranks->count();
    report_models(options, models, protocol);
    kept.sweep().finish();
  });
}

}  // namespace

void add_circuit_verb(CLI::App& app) {
  auto options = std::make_shared<CircuitOptions>();
  CLI::App* verb = add_verb(app, "circuit");
  verb->add_option("MODEL", options->models,
                   "one or more models, each compared with those after it: BASE CONTROL SPARSE")
      ->type_name("")
      ->required()
      ->expected(1, 16);
  add_task_options(*verb, options->task);
  verb->add_option("--level", options->level,
                   "head (default), attention-edge (head, query, key) or graph-edge (between heads, MLPs, "
                   "input, logits)")
      ->check(CLI::IsMember({"head", "attention-edge", "graph-edge"}).description(""))
      ->type_name("LEVEL");
  verb->add_option("--method", options->method,
                   "order by exact effects (heads' default), eap (edges' default) or eap-ig")
      ->check(CLI::IsMember({"exact", "eap", "eap-ig"}).description(""))
      ->type_name("METHOD");
  verb->add_option("--ablation", options->ablation,
                   "zero, mean (default) or interchange (graph-edge's default)")
      ->type_name("KIND");
  verb->add_option("--threshold", options->settings.threshold, "the faithfulness a circuit must reach")
      ->type_name("X")
      ->check(between(0.0, 1.0))
      ->capture_default_str();
  verb->add_option("--seeds", options->seeds, "draw the task N times, from --seed on")
      ->type_name("N")
      ->check(between(1, 1000))
      ->capture_default_str();
  verb->add_flag("--greedy", options->settings.greedy, "then drop heads that the circuit can spare");
  verb->add_flag("--agreement", options->settings.agreement,
                 "measure the 100 best parts of an attribution exactly too");
  verb->add_option("--heads", options->heads, "also how faithful these heads are")
      ->check(names_something())
      ->type_name("L5H1,...");
  verb->add_option("--mib", options->mib, "write all graph edges and their scores as MIB does")
      ->type_name("FILE");
  verb->add_option("--out", options->out, "curves and circuits as .svg, .png or .pdf")->type_name("FILE");
  add_sweep_option(*verb, options->sweep);
  add_common_options(*verb, options->common);
  verb->footer(
      "Examples:\n"
      "  openwork circuit openwork-8m --task copy --out copy.svg\n"
      "  openwork circuit base/ control/ sparse/ --task copy --seeds 3 --greedy\n"
      "  openwork circuit dense/ sparse/ --task ioi --level attention-edge --seeds 3 --json ioi.json\n"
      "  openwork circuit openwork-8m --task copy --level graph-edge --method eap --mib edges.json");
  verb->callback([options, verb] { run_circuit(*options, *verb); });
}

}  // namespace openwork
