// Which modules of a model an adapter changes and how: by low-rank parts A and B, or whole. Options name them as
// people do (attention, q_proj), adapter_config.json as PEFT looks for them.
#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "model/config.h"

namespace openwork {

struct LoraOptions {
  int64_t rank = 16;
  double alpha = 16;
  std::vector<std::string> targets = {"all"};  // module names (q_proj, c_attn, ...), or all, attention, mlp
  std::vector<std::string> full = {};          // likewise: trained whole, with their biases, not by low ranks
};

// The module of a weight: its name without ".weight".
std::string module_name(const std::string& parameter);

// The weights that get low-rank parts: those of modules that `options.targets` names and `options.full` does
// not. Fails on a name that no module has, and where none is left.
std::vector<std::string> find_lora_targets(const ModelConfig& config, const LoraOptions& options);

// The parameters that are trained whole: weights and biases of the modules that `options.full` names.
std::vector<std::string> find_full_parameters(const ModelConfig& config, const LoraOptions& options);

// The modules of these parameters as PEFT is told of them (target_modules, modules_to_save): by the shortest
// ending that no other module has, "c_attn", "attn.c_proj", or one layer's whole name.
std::set<std::string> name_for_peft(const ModelConfig& config, const std::vector<std::string>& parameters);

}  // namespace openwork
