#include "report/ablation_json.h"

#include <map>

#include "io/interval_json.h"

namespace openwork {
namespace {

const std::map<std::string, Part::Kind>& sweeps() {
  static const std::map<std::string, Part::Kind> kinds = {{"heads", Part::Kind::kHead},
                                                          {"q", Part::Kind::kQuery},
                                                          {"k", Part::Kind::kKey},
                                                          {"v", Part::Kind::kValue},
                                                          {"mlp", Part::Kind::kMlp}};
  return kinds;
}

}  // namespace

const char* sweep_name(Part::Kind kind) {
  for (const auto& [name, swept] : sweeps()) {
    if (swept == kind) return name.c_str();
  }
  return "";
}

Part::Kind parse_sweep(const std::string& name) {
  return sweeps().at(name);
}

nlohmann::json to_json(const AblationRecord& record) {
  nlohmann::json result = {{"clean_metric", record.clean},
                           {"corrupt_metric", record.corrupt},
                           {"ablation", ablation_name(record.settings.ablation)}};
  if (!record.settings.only.empty()) {
    result["parts"] = nlohmann::json::array();
    for (const PartEffect& part : record.effects) {
      result["parts"].push_back({{"name", to_string(part.part)},
                                 {"effect", part.effect},
                                 {"interval", interval_json(part.interval)}});
    }
    return result;
  }
  result["of"] = sweep_name(record.settings.of);
  const size_t columns = record.effects.size() / static_cast<size_t>(record.layers);
  for (size_t n = 0; n < record.effects.size(); ++n) {
    const PartEffect& part = record.effects[n];
    result["effects"][n / columns].push_back(part.effect);
    result["intervals"][n / columns].push_back(interval_json(part.interval));
  }
  return result;
}

}  // namespace openwork
