#include "model/adapter_config.h"

#include <cmath>

#include "model/config.h"

namespace openwork {

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
  return config;
}

}  // namespace openwork
