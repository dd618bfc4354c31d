// openwork circuit: the heads or edges a task needs, how faithful they are, and how models compare.
#include "analyze/circuit.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>

#include "base/error.h"
#include "cli/circuit_figure.h"
#include "cli/open.h"
#include "cli/task_options.h"
#include "cli/verbs.h"
#include "io/atomic_file.h"

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

// One model's circuits, one per seed; the first is the one shown.
struct ModelCircuits {
  std::string name;
  CircuitPicture picture;
  std::vector<CircuitCurve> curves;
  nlohmann::json seeds = nlohmann::json::array(), files, named;
  double clean = 0, corrupt = 0, none = 0;
};

nlohmann::json to_json(const Interval& interval) {
  return {interval.low, interval.high};
}

// What the options say, with each level's own defaults: heads are measured, edges are attributed; graph edges
// are replaced by the corrupt run's values, as MIB does.
void settle_settings(CircuitOptions& options) {
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
  if (!options.mib.empty() && settings.level != CircuitLevel::kGraphEdge) {
    fail_input(fmt::format("--mib with --level {}", options.level), "command line", "use --level graph-edge");
  }
  if (!options.mib.empty() && options.models.size() > 1)
    fail_input("--mib with several models", "command line", "give one model");
  if (settings.greedy && settings.level != CircuitLevel::kHead)
    fail_input("--greedy with edges", "command line", "use --level head");
  if (!options.heads.empty() && settings.level != CircuitLevel::kHead)
    fail_input("--heads with edges", "command line", "use --level head");
  if (options.seeds > 1 && !is_built_in_task(options.task.task))
    fail_input("--seeds with a file", "command line", "a file draws nothing: leave --seeds out");
  if (!options.out.empty()) draw::format_of(options.out);
}

std::string count_text(const Circuit& circuit) {
  return circuit.edges_at_threshold ? fmt::format("{}", *circuit.edges_at_threshold) : "-";
}

void print_header(const CircuitOptions& options) {
  print_result(options.common,
               fmt::format("{:<24} {:>7} {:>10} {:>9} {:>9} {:>16} {:>12} {:>11}", "model", "heads", "edges",
                           "of", "clean", "95 % of size", "faithfulness", "rest alone"));
}

void print_row(const CircuitOptions& options, const ModelCircuits& model) {
  const Circuit& circuit = model.picture.circuit;
  double reached = 1;
  for (const CurvePoint& point : circuit.curve.points) {
    if (point.count == circuit.curve.at_threshold) reached = point.faithfulness;
  }
  print_result(options.common,
               fmt::format("{:<24} {:>7} {:>10} {:>9} {:>9.4f} {:>16} {:>12.4f} {:>11.4f}", model.name,
                           circuit.heads_at_threshold, count_text(circuit), circuit.candidates, model.clean,
                           fmt::format("[{:.0f}, {:.0f}]", circuit.curve.threshold_interval.low,
                                       circuit.curve.threshold_interval.high),
                           reached, circuit.rest_alone));
}

void print_circuit(const CircuitOptions& options, const ModelCircuits& model) {
  const Circuit& circuit = model.picture.circuit;
  if (!circuit.greedy.empty()) {
    print_result(
        options.common,
        fmt::format("{}: {} heads after dropping what it can spare (faithfulness {:.4f}): {}", model.name,
                    circuit.greedy.size(), circuit.greedy_faithfulness, fmt::join(circuit.greedy, " ")));
  }
  if (circuit.agreement) {
    print_result(
        options.common,
        fmt::format("{}: {} against exact on the {} best parts: correlation {:.3f}, largest error {:.4f}",
                    model.name, options.method, circuit.agreement->parts, circuit.agreement->correlation,
                    circuit.agreement->largest_error));
  }
  if (!model.named.is_null()) {
    print_result(options.common, fmt::format("{}: {}: faithfulness {:.4f}, rest alone {:.4f}", model.name,
                                             options.heads, model.named["faithfulness"].get<double>(),
                                             model.named["rest_alone"].get<double>()));
  }
  std::string line;
  for (size_t n = 0; n < circuit.roles.size() && n < 12; ++n) {
    line += fmt::format("{}{} ({})", n ? ", " : "", to_string(circuit.roles[n].head), circuit.roles[n].role);
  }
  print_result(options.common,
               fmt::format("{}: {}{}", model.name, line, circuit.roles.size() > 12 ? ", ..." : ""));
}

nlohmann::json named_circuit(const CircuitOptions& options, const Transformer& model, const Task& task) {
  AblationRunner runner(model, task, options.settings.ablation);
  std::vector<Part> heads;
  for (const std::string& name : split_names(options.heads)) {
    heads.push_back(parse_part(name, model.config(), runner.tokens()));
    if (heads.back().kind != Part::Kind::kHead)
      fail_input(fmt::format("'{}' is no head", printable(name, 60)), "--heads", "write heads as L5H1");
  }
  const NamedCircuit result = evaluate_heads(runner, heads, options.common.seed);
  return {{"heads", split_names(options.heads)},
          {"faithfulness", result.faithfulness},
          {"interval", to_json(result.interval)},
          {"rest_alone", result.rest_alone},
          {"rest_interval", to_json(result.rest_interval)}};
}

// The edges a drawing shows: those of the circuit where it is one of graph edges, else attribution between
// its heads.
std::vector<DrawnEdge> drawn_edges(const CircuitOptions& options, const Transformer& model, const Task& task,
                                   const Circuit& circuit) {
  constexpr size_t kMost = 60;
  if (options.out.empty()) return {};
  if (options.settings.level != CircuitLevel::kGraphEdge) {
    std::vector<Part> heads;
    for (const HeadRole& role : circuit.roles) heads.push_back(role.head);
    return connect_heads(model, task, heads, kMost);
  }
  std::vector<DrawnEdge> edges;
  const EdgeGraph graph(model.config());
  const auto head_name = [](const std::string& node) {  // a5.h1 -> L5H1
    if (!node.starts_with("a")) return node;
    const size_t dot = node.find(".h");
    return "L" + node.substr(1, dot - 1) + "H" + node.substr(dot + 2);
  };
  for (size_t n = 0; n < circuit.order.size() && n < kMost; ++n) {
    const GraphEdge edge = graph.parse_edge(circuit.order[n]);
    const std::string to = graph.destination_name(edge.destination);
    const size_t bracket = to.find('<');
    edges.push_back({head_name(graph.source_name(edge.source)), head_name(to.substr(0, bracket)),
                     bracket == std::string::npos ? "" : to.substr(bracket + 1, 1), circuit.scores[n]});
  }
  return edges;
}

ModelCircuits examine_model(const CircuitOptions& options, const std::string& name, Sweep& sweep,
                            nlohmann::json& protocol) {
  const Transformer model = open_model(name, options.common);
  protocol["device"] = model.device().str();
  ModelCircuits result{.name = name,
                       .picture = {.name = name, .circuit = {}, .edges = {}},
                       .curves = {},
                       .files = describe_model_files(name),
                       .named = {}};
  for (int64_t n = 0; n < options.seeds; ++n) {
    const uint64_t seed = options.common.seed + static_cast<uint64_t>(n);
    const Task task = open_task(name, model, options.task, options.common, seed);
    if (n == 0) protocol.update(describe_task(task));
    sweep.scope = fmt::format("{} seed {}: ", name, seed);
    Circuit circuit = find_circuit(model, task, options.settings, sweep);
    result.seeds.push_back({{"seed", seed},
                            {"heads_at_threshold", circuit.heads_at_threshold},
                            {"edges_at_threshold", nullptr},
                            {"rest_alone", circuit.rest_alone}});
    if (circuit.edges_at_threshold) result.seeds.back()["edges_at_threshold"] = *circuit.edges_at_threshold;
    result.curves.push_back(circuit.curve);
    if (n > 0) continue;
    result.clean = mean_of(circuit.curve.all), result.corrupt = mean_of(circuit.corrupt),
    result.none = mean_of(circuit.curve.none);
    if (!options.heads.empty()) result.named = named_circuit(options, model, task);
    if (!options.mib.empty()) {
      write_text_file(
          options.mib,
          to_mib(EdgeGraph(model.config()), circuit.edge_scores, circuit.edges_kept).dump(1) + "\n");
    }
    result.picture.edges = drawn_edges(options, model, task, circuit);
    result.picture.circuit = std::move(circuit);
  }
  return result;
}

nlohmann::json roles_json(const Circuit& circuit) {
  nlohmann::json roles = nlohmann::json::array();
  for (const HeadRole& role : circuit.roles) {
    roles.push_back({{"head", to_string(role.head)},
                     {"role", role.role},
                     {"attention", role.attention},
                     {"direct_effect", role.direct_effect}});
  }
  return roles;
}

nlohmann::json to_json(const CircuitOptions& options, const ModelCircuits& model) {
  const Circuit& circuit = model.picture.circuit;
  nlohmann::json result = {{"name", model.name},
                           {"level", options.level},
                           {"order", circuit.order},
                           {"scores", circuit.scores},
                           {"candidates", circuit.candidates},
                           {"heads_at_threshold", circuit.heads_at_threshold},
                           {"edges_at_threshold", nullptr},
                           {"threshold_interval", to_json(circuit.curve.threshold_interval)},
                           {"rest_alone", circuit.rest_alone},
                           {"rest_interval", to_json(circuit.rest_interval)},
                           {"clean_metric", model.clean},
                           {"corrupt_metric", model.corrupt},
                           {"ablated_metric", model.none},
                           {"roles", roles_json(circuit)},
                           {"seeds", model.seeds}};
  if (circuit.edges_at_threshold) result["edges_at_threshold"] = *circuit.edges_at_threshold;
  for (const CurvePoint& point : circuit.curve.points) {
    result["counts"].push_back(point.count);
    result["faithfulness"].push_back(point.faithfulness);
    result["intervals"].push_back(to_json(point.interval));
  }
  if (options.settings.greedy)
    result["greedy"] = {{"heads", circuit.greedy}, {"faithfulness", circuit.greedy_faithfulness}};
  if (!model.named.is_null()) result["named"] = model.named;
  if (circuit.agreement) {
    result["agreement"] = {{"parts", circuit.agreement->parts},
                           {"correlation", circuit.agreement->correlation},
                           {"largest_error", circuit.agreement->largest_error}};
  }
  return result;
}

// The first model against each other one.
nlohmann::json compare_models(const CircuitOptions& options, const std::vector<ModelCircuits>& models) {
  nlohmann::json rows = nlohmann::json::array();
  for (size_t n = 1; n < models.size(); ++n) {
    const CircuitRatio ratio =
        compare_curves(models[0].curves, models[n].curves, options.settings.threshold, options.common.seed);
    print_result(
        options.common,
        fmt::format(
            "{} needs {:.2f} times fewer than {} at equal faithfulness, 95 % [{:.2f}, {:.2f}], {} seed{}",
            models[n].name, ratio.ratio, models[0].name, ratio.interval.low, ratio.interval.high,
            options.seeds, options.seeds > 1 ? "s" : ""));
    rows.push_back({{"dense", models[0].name},
                    {"sparse", models[n].name},
                    {"ratio", ratio.ratio},
                    {"interval", to_json(ratio.interval)}});
  }
  return rows;
}

void run_circuit(CircuitOptions& options) {
  apply_common_options(options.common);
  settle_settings(options);
  nlohmann::json protocol = make_protocol(options.common), files = nlohmann::json::array();
  for (const std::string& name : options.models) files.push_back(describe_model_files(name));
  protocol.update({{"models", files},
                   {"level", options.level},
                   {"method", options.method},
                   {"ablation", options.ablation},
                   {"threshold", options.settings.threshold},
                   {"seeds", options.seeds},
                   {"bootstrap", "prompts, 2000 draws; seeds too where several"}});
  nlohmann::json key = protocol;
  key.update({{"task", options.task.task}, {"prompts", options.task.prompts}});
  KeptSweep kept(options.sweep, options.common, key);
  kept.guard([&] {
    std::vector<ModelCircuits> models;
    check_models(options.models);
    print_header(options);
    for (const std::string& name : options.models) {
      models.push_back(examine_model(options, name, kept.sweep(), protocol));
      print_row(options, models.back());
    }
    for (const ModelCircuits& model : models) print_circuit(options, model);
    nlohmann::json result = {{"models", nlohmann::json::array()},
                             {"comparison", compare_models(options, models)},
                             {"protocol", protocol}};
    for (const ModelCircuits& model : models) result["models"].push_back(to_json(options, model));
    if (!options.out.empty()) {
      std::vector<CircuitPicture> pictures;
      for (const ModelCircuits& model : models) pictures.push_back(model.picture);
      const std::string caption = fmt::format(
          "{} prompts, {} ablation, ordered by {} scores; bands: 95 % over prompts; seed {}",
          protocol["prompts"].get<int64_t>(), options.ablation, options.method, options.common.seed);
      draw::write_figure(
          draw_circuits(pictures, options.settings, protocol["task"].get<std::string>(), caption),
          options.out);
    }
    write_json_result(options.common, result);
    kept.sweep().finish();
  });
}

}  // namespace

void add_circuit_verb(CLI::App& app) {
  auto options = std::make_shared<CircuitOptions>();
  CLI::App* verb = app.add_subcommand(
      "circuit", "the heads or edges a task needs, faithfulness curves, models side by side");
  verb->add_option("MODEL", options->models, "one or more models; the first is what others are compared with")
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
  verb->add_option("--heads", options->heads, "also how faithful these heads are")->type_name("L5H1,...");
  verb->add_option("--mib", options->mib, "write all graph edges and their scores as MIB does")
      ->type_name("FILE");
  verb->add_option("--out", options->out, "curves and circuits as .svg, .png or .pdf")->type_name("FILE");
  verb->add_option("--sweep", options->sweep,
                   "keep what is done in FILE until the end (default: beside --json FILE)")
      ->type_name("FILE");
  add_common_options(*verb, options->common);
  verb->footer(
      "Examples:\n"
      "  openwork circuit openwork-8m --task copy --out copy.svg\n"
      "  openwork circuit dense/ sparse/ --task ioi --level attention-edge --seeds 3 --json ioi.json\n"
      "  openwork circuit openwork-8m --task copy --level graph-edge --method eap --mib edges.json");
  verb->callback([options] { run_circuit(*options); });
}

}  // namespace openwork
