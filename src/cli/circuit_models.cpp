#include "cli/circuit_models.h"

#include <fmt/format.h>

#include "base/error.h"
#include "cli/open.h"
#include "io/atomic_file.h"

namespace openwork {
namespace {

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
  if (options.out.empty() || !options.common.speaks) return {};
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

}  // namespace

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
    if (!options.mib.empty() && options.common.speaks) {
      write_text_file(
          options.mib,
          to_mib(EdgeGraph(model.config()), circuit.edge_scores, circuit.edges_kept).dump(1) + "\n");
    }
    result.picture.edges = drawn_edges(options, model, task, circuit);
    result.picture.circuit = std::move(circuit);
  }
  return result;
}

}  // namespace openwork
