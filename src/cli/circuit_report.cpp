// openwork circuit's results as lines and as JSON.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/circuit_models.h"

namespace openwork {
namespace {

std::string count_text(const Circuit& circuit) {
  return circuit.edges_at_threshold ? fmt::format("{}", *circuit.edges_at_threshold) : "-";
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

}  // namespace

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

nlohmann::json to_json(const CircuitOptions& options, const ModelCircuits& model) {
  const Circuit& circuit = model.picture.circuit;
  nlohmann::json result = {{"name", model.name},
                           {"level", options.level},
                           {"order", circuit.order},
                           {"scores", circuit.scores},
                           {"ordered_by", circuit.by_size ? "size" : "score"},
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

}  // namespace openwork
