#include "report/circuit_file.h"

#include <fmt/format.h>

#include <optional>

#include "base/error.h"
#include "io/json.h"
#include "report/circuit_json.h"

namespace openwork {
namespace {

constexpr const char* kAdvice = "make it with circuit --level head --json FILE";

const nlohmann::json& find_model(const nlohmann::json& result, const std::string& name,
                                 const std::string& file) {
  for (const nlohmann::json& model : result.at("models")) {
    if (model.at("name") == name && model.at("level") == "head") return model;
  }
  fail_input(fmt::format("no circuit of heads of {}", name), file, kAdvice);
}

// Every head of the model once, with its score.
void read_order(const nlohmann::json& found, const ModelConfig& config, const std::string& file,
                TaskNeeds& needs) {
  const nlohmann::json& order = found.at("order");
  for (size_t n = 0; n < order.size(); ++n) {
    const auto name = order.at(n).get<std::string>();
    const std::optional<HeadPlace> place = parse_head_place(name);
    if (!place || place->layer >= config.layers || place->head >= config.heads)
      fail_input(fmt::format("'{}' in 'order' is no head of the model", printable(name, 60)), file, kAdvice);
    if (!needs.importance.emplace(*place, found.at("scores").at(n).get<double>()).second)
      fail_input(fmt::format("{} twice in 'order'", place->name()), file, kAdvice);
    needs.order.push_back(*place);
  }
  const int64_t heads = config.layers * config.heads;
  if (static_cast<int64_t>(order.size()) != heads)
    fail_input(fmt::format("'order' has {} of the model's {} heads", order.size(), heads), file, kAdvice);
}

void read_size(const nlohmann::json& found, const nlohmann::json& protocol, const std::string& file,
               TaskNeeds& needs) {
  const nlohmann::json &needed = found.at("heads_at_threshold"), &threshold = protocol.at("threshold");
  if (!needed.is_number_unsigned() || needed.get<uint64_t>() > needs.order.size()) {
    fail_input(fmt::format("'heads_at_threshold' is {}", printable(needed.dump(), 60)), file,
               fmt::format("it is 0 to {}; {}", needs.order.size(), kAdvice));
  }
  if (!threshold.is_number() || !(threshold.get<double>() >= 0 && threshold.get<double>() <= 1)) {
    fail_input(fmt::format("'threshold' is {}", printable(threshold.dump(), 60)), file,
               fmt::format("it is 0 to 1; {}", kAdvice));
  }
  needs.needed = needed, needs.threshold = threshold;
}

// A circuit is of the prompts and weights it was found on.
void check_protocol(const nlohmann::json& protocol, const nlohmann::json& task, const nlohmann::json& files,
                    const std::string& name, const std::string& file) {
  for (const char* key : {"task", "prompts", "tokens", "task_seed", "task_sha256"}) {
    const nlohmann::json there = protocol.value(key, nlohmann::json()),
                         here = task.value(key, nlohmann::json());
    if (there == here) continue;
    fail_input(fmt::format("{} is {} there, {} here", key, there.dump(), here.dump()), file,
               "give the --task, --prompts and --seed it was made with");
  }
  for (const nlohmann::json& model : protocol.at("models")) {
    if (model == files) return;
  }
  fail_input(fmt::format("{} has other weights than the circuit's", name), file, "make the circuit again");
}

}  // namespace

TaskHeads find_described_heads(const Transformer& model, const Task& task, const std::string& ablation,
                               double threshold, uint64_t seed) {
  TaskHeads heads = find_task_heads(model, task, parse_ablation(ablation), threshold, seed);
  heads.description = describe_task(task);
  heads.description["ablation"] = ablation;
  heads.description["threshold"] = threshold;
  heads.needs.task = heads.description["task"].get<std::string>();
  return heads;
}

TaskHeads read_task_heads(const std::string& file, const std::string& name, const nlohmann::json& files,
                          const ModelConfig& config, const Task& task) {
  const nlohmann::json result = read_json_file(file);
  try {
    const nlohmann::json& found = find_model(result, name, file);
    TaskHeads heads;
    TaskNeeds& needs = heads.needs;
    heads.description = describe_task(task);
    check_protocol(result.at("protocol"), heads.description, files, name, file);
    read_order(found, config, file, needs);
    read_size(found, result.at("protocol"), file, needs);
    const auto counts = found.at("counts").get<std::vector<size_t>>();
    for (size_t n = 0; n < counts.size(); ++n) {
      if (counts[n] == needs.needed) needs.faithfulness = found.at("faithfulness").at(n);
    }
    heads.description["ablation"] = result.at("protocol").at("ablation");
    heads.description["threshold"] = needs.threshold;
    needs.task = heads.description["task"].get<std::string>();
    return heads;
  } catch (const nlohmann::json::exception&) {
    fail_input("not a circuit of heads", file, kAdvice);
  }
}

}  // namespace openwork
