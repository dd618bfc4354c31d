#include "model/adapter_modules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "model/architecture.h"

namespace openwork {
namespace {

bool is_attention(Role role) {
  return role == Role::kQkv || role == Role::kQuery || role == Role::kKey || role == Role::kValue ||
         role == Role::kAttentionOutput;
}
bool is_mlp(Role role) {
  return role == Role::kUp || role == Role::kGate || role == Role::kDown;
}

std::vector<ParameterSpec> all_parameters(const ModelConfig& config) {
  return list_parameters(architecture_named(config.architecture, "model"), config);
}

// Of a weight or a bias.
std::string module_of(const ParameterSpec& spec) {
  return spec.bias ? spec.name.substr(0, spec.name.rfind('.')) : module_name(spec.name);
}

// GPT-2 calls two modules c_proj; "attn.c_proj" tells them apart, as PEFT's endings do.
bool names_module(const std::string& target, Role role, const std::string& module) {
  if (target == "all") return true;
  if (target == "attention") return is_attention(role);
  if (target == "mlp") return is_mlp(role);
  return module == target || module.ends_with("." + target);
}

// The linear modules that `targets` names, each by its whole name; `option` is what gave them.
std::set<std::string> find_modules(const ModelConfig& config, const std::vector<std::string>& targets,
                                   const char* option) {
  std::set<std::string> found, known, missing(targets.begin(), targets.end());
  for (const ParameterSpec& spec : all_parameters(config)) {
    if (spec.bias || !(is_attention(spec.role) || is_mlp(spec.role))) continue;
    const std::string module = module_of(spec);
    known.insert(module.substr(module.rfind('.') + 1));
    for (const std::string& target : targets) {
      if (!names_module(target, spec.role, module)) continue;
      missing.erase(target);
      found.insert(module);
    }
  }
  if (!missing.empty() || found.empty()) {
    fail_input(fmt::format("no module is called '{}'", missing.empty() ? "" : printable(*missing.begin())),
               option, fmt::format("use all, attention, mlp, or some of {}", fmt::join(known, ", ")));
  }
  return found;
}

std::set<std::string> find_full_modules(const ModelConfig& config, const LoraOptions& options) {
  if (options.full.empty()) return {};
  return find_modules(config, options.full, "--lora-full");
}

}  // namespace

std::string module_name(const std::string& parameter) {
  constexpr std::string_view kEnding = ".weight";
  return parameter.ends_with(kEnding) ? parameter.substr(0, parameter.size() - kEnding.size()) : parameter;
}

std::vector<std::string> find_lora_targets(const ModelConfig& config, const LoraOptions& options) {
  const std::set<std::string> modules = find_modules(config, options.targets, "--lora-targets"),
                              full = find_full_modules(config, options);
  std::vector<std::string> found;
  for (const ParameterSpec& spec : all_parameters(config)) {
    const std::string module = module_of(spec);
    if (!spec.bias && modules.contains(module) && !full.contains(module)) found.push_back(spec.name);
  }
  if (found.empty()) {
    fail_input("no module is left for low ranks: all of them are trained whole", "--lora-full",
               "name fewer, or train all weights (--full)");
  }
  return found;
}

std::vector<std::string> find_full_parameters(const ModelConfig& config, const LoraOptions& options) {
  const std::set<std::string> full = find_full_modules(config, options);
  std::vector<std::string> found;
  for (const ParameterSpec& spec : all_parameters(config)) {
    if (!is_gate(spec.role) && full.contains(module_of(spec))) found.push_back(spec.name);
  }
  return found;
}

std::set<std::string> name_for_peft(const ModelConfig& config, const std::vector<std::string>& parameters) {
  const std::set<std::string> given(parameters.begin(), parameters.end());
  std::set<std::string> wanted, others, names;
  for (const ParameterSpec& spec : all_parameters(config)) {
    if (given.contains(spec.name)) wanted.insert(module_of(spec));
  }
  for (const ParameterSpec& spec : all_parameters(config)) {
    if (!is_gate(spec.role) && !wanted.contains(module_of(spec))) others.insert(module_of(spec));
  }
  for (const std::string& module : wanted) {
    // Where PEFT looks for whole modules it asks for no dot before the ending: "1.attn.c_attn" is of layer 11
    // too.
    const auto is_taken = [&](const std::string& ending) {
      return std::ranges::any_of(others, [&](const std::string& other) { return other.ends_with(ending); });
    };
    size_t dot = module.rfind('.');  // npos + 1 is 0: the whole name
    while (dot != std::string::npos && is_taken(module.substr(dot + 1)))
      dot = dot > 0 ? module.rfind('.', dot - 1) : std::string::npos;
    names.insert(module.substr(dot + 1));
  }
  return names;
}

}  // namespace openwork
