#include "report/circuit_file.h"

#include <fmt/format.h>

#include "base/error.h"
#include "io/json.h"
#include "report/circuit_json.h"

namespace openwork {
namespace {

const nlohmann::json& find_model(const nlohmann::json& result, const std::string& name,
                                 const std::string& file) {
  for (const nlohmann::json& model : result.at("models")) {
    if (model.at("name") == name && model.at("level") == "head") return model;
  }
  fail_input(fmt::format("no circuit of heads of {}", name), file,
             "make it with circuit --level head --json FILE");
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
    for (size_t n = 0; n < found.at("order").size(); ++n) {
      needs.order.push_back(parse_part(found.at("order").at(n), config, task.length()).place());
      needs.importance[needs.order.back()] = found.at("scores").at(n);
    }
    needs.needed = found.at("heads_at_threshold");
    const auto counts = found.at("counts").get<std::vector<size_t>>();
    for (size_t n = 0; n < counts.size(); ++n) {
      if (counts[n] == needs.needed) needs.faithfulness = found.at("faithfulness").at(n);
    }
    heads.description["ablation"] = result.at("protocol").at("ablation");
    heads.description["threshold"] = result.at("protocol").at("threshold");
    needs.task = heads.description["task"].get<std::string>();
    needs.threshold = heads.description["threshold"].get<double>();
    return heads;
  } catch (const nlohmann::json::exception&) {
    fail_input("not a circuit of heads", file, "make it with circuit --level head --json FILE");
  }
}

}  // namespace openwork
