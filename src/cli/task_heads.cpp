#include "cli/task_heads.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "analyze/circuits/circuit.h"
#include "base/error.h"
#include "base/progress.h"
#include "io/json.h"

namespace openwork {
namespace {

at::Tensor clean_prompts(const Task& task, const at::Device& device) {
  std::vector<at::Tensor> rows;
  for (const TaskPrompt& prompt : task.prompts) rows.push_back(at::tensor(prompt.clean, at::kLong));
  return at::stack(rows).to(device);
}

const nlohmann::json& find_model(const nlohmann::json& result, const std::string& name,
                                 const std::string& file) {
  for (const nlohmann::json& model : result.at("models")) {
    if (model.at("name") == name && model.at("level") == "head") return model;
  }
  fail_input(fmt::format("no circuit of heads of {}", name), file,
             "make it with circuit --level head --json FILE");
}

// A circuit is of the prompts and weights it was found on.
void check_protocol(const nlohmann::json& protocol, const nlohmann::json& task, const std::string& name,
                    const std::string& file) {
  for (const char* key : {"task", "prompts", "tokens"}) {
    if (protocol.at(key) == task.at(key)) continue;
    fail_input(fmt::format("{} is {} there, {} here", key, protocol.at(key).dump(), task.at(key).dump()),
               file, "give the --task and --prompts it was made with");
  }
  const nlohmann::json files = describe_model_files(name);
  for (const nlohmann::json& model : protocol.at("models")) {
    if (model == files) return;
  }
  fail_input(fmt::format("{} has other weights than the circuit's", name), file, "make the circuit again");
}

}  // namespace

TaskHeads find_task_heads(const std::string& name, const Transformer& model, const TaskOptions& options,
                          const std::string& ablation, double threshold, const CommonOptions& common) {
  const Task task = open_task(name, model, options, common, common.seed);
  note(fmt::format("{}: effects of {} heads on {}", name, model.config().layers * model.config().heads,
                   describe_task(task)["task"].get<std::string>()));
  CircuitSettings settings;
  settings.ablation = parse_ablation(ablation);
  settings.threshold = threshold;
  settings.seed = common.seed;
  Sweep sweep("", {});
  const Circuit circuit = find_circuit(model, task, settings, sweep);
  TaskHeads heads;
  for (size_t n = 0; n < circuit.order.size(); ++n) {
    const Part part = parse_part(circuit.order[n], model.config(), task.length());
    heads.order.push_back({part.layer, part.head});
    heads.importance[heads.order.back()] = circuit.scores[n];
  }
  heads.needed = static_cast<size_t>(circuit.heads_at_threshold);
  for (const CurvePoint& point : circuit.curve.points) {
    if (point.count == circuit.heads_at_threshold) heads.faithfulness = point.faithfulness;
  }
  heads.ids = clean_prompts(task, model.device());
  heads.description = describe_task(task);
  heads.description["ablation"] = ablation;
  heads.description["threshold"] = threshold;
  return heads;
}

TaskHeads read_task_heads(const std::string& file, const std::string& name, const Transformer& model,
                          const TaskOptions& options, const CommonOptions& common) {
  const Task task = open_task(name, model, options, common, common.seed);
  const nlohmann::json result = read_json_file(file);
  try {
    const nlohmann::json& found = find_model(result, name, file);
    check_protocol(result.at("protocol"), describe_task(task), name, file);
    TaskHeads heads;
    for (size_t n = 0; n < found.at("order").size(); ++n) {
      const Part part = parse_part(found.at("order").at(n), model.config(), task.length());
      heads.order.push_back({part.layer, part.head});
      heads.importance[heads.order.back()] = found.at("scores").at(n);
    }
    heads.needed = found.at("heads_at_threshold");
    const auto counts = found.at("counts").get<std::vector<size_t>>();
    for (size_t n = 0; n < counts.size(); ++n) {
      if (counts[n] == heads.needed) heads.faithfulness = found.at("faithfulness").at(n);
    }
    heads.ids = clean_prompts(task, model.device());
    heads.description = describe_task(task);
    heads.description["ablation"] = result.at("protocol").at("ablation");
    heads.description["threshold"] = result.at("protocol").at("threshold");
    return heads;
  } catch (const nlohmann::json::exception&) {
    fail_input("not a circuit of heads", file, "make it with circuit --level head --json FILE");
  }
}

}  // namespace openwork
