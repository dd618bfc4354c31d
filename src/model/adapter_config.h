// adapter_config.json of a LoRA adapter in PEFT layout (adapter.h), as plain data: what merging needs of it.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "base/gate_kind.h"

namespace openwork {

// An entry of rank_pattern or alpha_pattern: a regular expression for the end of a module's name, from a dot on,
// and the number of the modules it fits.
struct ModulePattern {
  std::string key;
  std::optional<std::regex> expression;  // none where the key is letters, digits and dots
  double value = 0;

  bool fits(const std::string& module) const;
};

struct AdapterConfig {
  int64_t rank = 1;
  double alpha = 1;
  bool by_root = false;                      // use_rslora
  std::vector<ModulePattern> ranks, alphas;  // the first that fits counts before the numbers above
  GateKind gate = GateKind::kNone;
  std::vector<std::string>
      whole_modules;  // modules_to_save: endings of the names of modules that stand whole

  bool is_whole(const std::string& parameter) const;  // in one of them
  int64_t rank_of(const std::string& module) const;
  // Of B A: alpha / rank, with use_rslora alpha / sqrt(rank); finite.
  double scale_of(const std::string& module) const;
};

// Fails in one line naming `origin` on what is not of that form, or a kind of adapter that is not read here.
AdapterConfig read_adapter_config(const nlohmann::json& json, const std::string& origin);

}  // namespace openwork
