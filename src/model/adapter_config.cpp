#include "model/adapter_config.h"

#include <cmath>
#include <string_view>

#include "base/error.h"
#include "model/config.h"

namespace openwork {
namespace {

std::vector<std::string> read_whole_modules(const ConfigReader& reader) {
  const char* key = "modules_to_save";
  const auto it = reader.json().find(key);
  if (it == reader.json().end() || it->is_null()) return {};
  std::vector<std::string> modules;
  const auto refuse = [&] { reader.refuse(key, printable(it->dump(), 60), "a list of names of modules"); };
  if (!it->is_array()) refuse();
  for (const nlohmann::json& name : *it) {
    if (!name.is_string() || name.get<std::string>().empty()) refuse();
    modules.push_back(name);
  }
  return modules;
}

}  // namespace

// As PEFT looks for them: a name may be of a module around the parameter's own, and needs no dot before it.
bool AdapterConfig::is_whole(const std::string& parameter) const {
  for (size_t dot = parameter.rfind('.'); dot != std::string::npos && dot > 0;
       dot = parameter.rfind('.', dot - 1)) {
    for (const std::string& ending : whole_modules) {
      if (std::string_view(parameter).substr(0, dot).ends_with(ending)) return true;
    }
  }
  return false;
}

AdapterConfig read_adapter_config(const nlohmann::json& json, const std::string& origin) {
  const ConfigReader reader(json, origin);
  if (reader.text_or("peft_type", "LORA") != "LORA")
    reader.refuse("peft_type", reader.text_or("peft_type", ""), "LORA");
  if (reader.flag_or("use_dora", false)) reader.refuse("use_dora", "true", "false");
  const double rank = static_cast<double>(reader.positive("r"));
  const double alpha = reader.number_or("lora_alpha", rank);
  AdapterConfig config;
  config.scale = alpha / (reader.flag_or("use_rslora", false) ? std::sqrt(rank) : rank);
  config.gate = read_gate(reader);
  config.whole_modules = read_whole_modules(reader);
  return config;
}

}  // namespace openwork
