// adapter_config.json of a LoRA adapter in PEFT layout (adapter.h), as plain data: what merging needs of it.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/gate_kind.h"

namespace openwork {

struct AdapterConfig {
  double scale = 1;  // of B A: lora_alpha / r, with use_rslora lora_alpha / sqrt(r); finite
  GateKind gate = GateKind::kNone;
  std::vector<std::string>
      whole_modules;  // modules_to_save: endings of the names of modules that stand whole

  bool is_whole(const std::string& parameter) const;  // in one of them
};

// Fails in one line naming `origin` on what is not of that form, or a kind of adapter that is not read here.
AdapterConfig read_adapter_config(const nlohmann::json& json, const std::string& origin);

}  // namespace openwork
