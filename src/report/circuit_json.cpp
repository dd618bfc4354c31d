#include "report/circuit_json.h"

#include <fmt/format.h>

#include <filesystem>

#include "io/interval_json.h"
#include "io/sha256.h"

namespace openwork {
namespace {

nlohmann::json names_of(const std::vector<HeadPlace>& heads) {
  nlohmann::json names = nlohmann::json::array();
  for (const HeadPlace& head : heads) names.push_back(head.name());
  return names;
}

// {"0.5": ..., "0.8": ..., "0.9": ..., "0.95": ...} of one value for each level.
template <typename Value>
nlohmann::json by_level(const Value& value_at) {
  nlohmann::json values = nlohmann::json::object();
  for (size_t n = 0; n < kLevels.size(); ++n) values[fmt::format("{:g}", kLevels[n])] = value_at(n);
  return values;
}

nlohmann::json roles_json(const Circuit& circuit) {
  nlohmann::json roles = nlohmann::json::array();
  for (const HeadRole& role : circuit.roles) {
    roles.push_back({{"head", role.head.name()},
                     {"role", role.role},
                     {"attention", role.attention},
                     {"direct_effect", role.direct_effect}});
  }
  return roles;
}

// What every seed's circuit has.
nlohmann::json sizes_json(const Circuit& circuit) {
  const CircuitCurve& curve = circuit.curve;
  nlohmann::json sizes = {{"heads_at_threshold", circuit.heads_at_threshold},
                          {"edges_at_threshold", nullptr},
                          {"rest_alone", circuit.rest_alone},
                          {"at", by_level([&](size_t n) { return curve.at[n].count; })},
                          {"area", curve.area},
                          {"mean_size", curve.mean_size}};
  if (circuit.edges_at_threshold) sizes["edges_at_threshold"] = *circuit.edges_at_threshold;
  return sizes;
}

nlohmann::json greedy_at_json(const Circuit& circuit) {
  return by_level([&](size_t n) { return circuit.greedy_at[n]; });
}

nlohmann::json seeds_json(const ModelCircuits& model) {
  nlohmann::json seeds = nlohmann::json::array();
  for (size_t n = 0; n < model.circuits.size(); ++n) {
    const Circuit& circuit = model.circuits[n];
    nlohmann::json seed = sizes_json(circuit);
    seed["seed"] = model.seeds[n];
    if (circuit.greedy)
      seed["greedy"] = {{"heads", circuit.greedy->heads.size()}, {"at", greedy_at_json(circuit)}};
    seeds.push_back(std::move(seed));
  }
  return seeds;
}

void add_curve(const CircuitCurve& curve, nlohmann::json& result) {
  for (const CurvePoint& point : curve.points) {
    result["counts"].push_back(point.count);
    result["faithfulness"].push_back(point.faithfulness);
    result["intervals"].push_back(interval_json(point.interval));
  }
  result["threshold_interval"] = interval_json(curve.threshold_interval);
  result["at_intervals"] = by_level([&](size_t n) { return interval_json(curve.at[n].interval); });
  result["area_interval"] = interval_json(curve.area_interval);
  result["mean_size_interval"] = interval_json(curve.mean_size_interval);
}

void add_what_was_asked(const ModelCircuits& model, nlohmann::json& result) {
  const Circuit& circuit = model.shown();
  if (circuit.greedy) {
    result["greedy"] = {{"heads", names_of(circuit.greedy->heads)},
                        {"faithfulness", circuit.greedy->faithfulness},
                        {"at", greedy_at_json(circuit)}};
  }
  if (model.named) {
    result["named"] = {{"heads", names_of(model.named_heads)},
                       {"faithfulness", model.named->faithfulness},
                       {"interval", interval_json(model.named->interval)},
                       {"rest_alone", model.named->rest_alone},
                       {"rest_interval", interval_json(model.named->rest_interval)}};
  }
  if (circuit.agreement) {
    result["agreement"] = {{"parts", circuit.agreement->parts},
                           {"correlation", circuit.agreement->correlation},
                           {"largest_error", circuit.agreement->largest_error}};
  }
}

nlohmann::json ratio_json(const CircuitRatio& ratio) {
  return {{"ratio", ratio.ratio}, {"interval", interval_json(ratio.interval)}};
}

nlohmann::json ratio_json(const SeedRatio& ratio) {
  nlohmann::json result = {{"ratio", ratio.ratio}, {"interval", nullptr}};
  if (ratio.interval) result["interval"] = interval_json(*ratio.interval);
  return result;
}

}  // namespace

nlohmann::json describe_task(const Task& task) {
  const bool drawn = is_built_in_task(task.name);
  nlohmann::json description = {
      {"task", drawn ? task.name : std::filesystem::path(task.name).filename().string()},
      {"prompts", task.prompts.size()},
      {"tokens", task.length()},
      {"metric", metric_name(task.metric)}};
  if (drawn) {
    description["task_seed"] = task.seed;
  } else {
    description["task_sha256"] = sha256_of_file(task.name);
  }
  return description;
}

nlohmann::json to_json(const ModelCircuits& model) {
  const Circuit& circuit = model.shown();
  nlohmann::json result = sizes_json(circuit);
  result.update({{"name", model.name},
                 {"level", level_name(circuit.level)},
                 {"order", circuit.names()},
                 {"scores", circuit.scores},
                 {"ordered_by", circuit.by_size ? "size" : "score"},
                 {"candidates", circuit.candidates},
                 {"rest_interval", interval_json(circuit.rest_interval)},
                 {"clean_metric", mean_of(circuit.curve.all)},
                 {"corrupt_metric", mean_of(circuit.corrupt)},
                 {"ablated_metric", mean_of(circuit.curve.none)},
                 {"roles", roles_json(circuit)},
                 {"seeds", seeds_json(model)}});
  add_curve(circuit.curve, result);
  add_what_was_asked(model, result);
  return result;
}

nlohmann::json to_json(const ModelRatio& ratio) {
  const CurveComparison& sizes = ratio.sizes;
  nlohmann::json result = ratio_json(sizes.at_threshold);
  result.update(
      {{"dense", ratio.dense},
       {"sparse", ratio.sparse},
       {"at", by_level([&](size_t n) { return ratio_json(sizes.at[n]); })},
       {"mean_size", ratio_json(sizes.mean_size)},
       {"area", {{"difference", sizes.area_difference}, {"interval", interval_json(sizes.area_interval)}}}});
  if (ratio.greedy) {
    result["greedy"] = ratio_json(*ratio.greedy);
    result["greedy"]["at"] = by_level([&](size_t n) { return ratio_json(ratio.greedy_at[n]); });
  }
  return result;
}

nlohmann::json circuits_json(const std::vector<ModelCircuits>& models, const CircuitSettings& settings) {
  nlohmann::json list = nlohmann::json::array(), ratios = nlohmann::json::array();
  for (const ModelCircuits& model : models) list.push_back(to_json(model));
  for (const ModelRatio& ratio : compare_models(models, settings)) ratios.push_back(to_json(ratio));
  return {{"ablation", ablation_name(settings.ablation)},
          {"threshold", settings.threshold},
          {"models", list},
          {"ratios", ratios}};
}

}  // namespace openwork
