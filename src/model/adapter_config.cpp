#include "model/adapter_config.h"

#include <fmt/format.h>

#include <algorithm>
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

// What makes more of an adapter than W + scale B A.
void check_kind(const ConfigReader& reader) {
  if (reader.text_or("peft_type", "LORA") != "LORA")
    reader.refuse("peft_type", reader.text_or("peft_type", ""), "LORA");
  for (const char* key :
       {"use_dora", "use_qalora", "use_bdlora", "alora_invocation_tokens", "arrow_config", "kasa_config"}) {
    const nlohmann::json value = reader.json().value(key, nlohmann::json());
    if (!value.is_null() && value != false) reader.refuse(key, printable(value.dump(), 60), "false or null");
  }
}

// With any other start (pissa, olora, corda, loftq) PEFT changes the base's weights when it opens the adapter.
void check_start(const ConfigReader& reader) {
  const char* key = "init_lora_weights";
  const nlohmann::json start = reader.json().value(key, nlohmann::json());
  if (start.is_null() || start.is_boolean()) return;
  for (const char* plain : {"gaussian", "Gaussian", "eva", "orthogonal", "mica", "lora_ga"}) {
    if (start == plain) return;
  }
  fail_input(fmt::format("{} is {}, which goes with a changed base model", key, printable(start.dump(), 60)),
             reader.origin(), "convert the adapter to a plain LoRA");
}

// Whether every backslash that a letter follows says what it says in Python: \Z would be a plain Z.
bool has_known_escapes(const std::string& key) {
  constexpr std::string_view kKnown = "dDsSwWbB";
  for (size_t at = key.find('\\'); at != std::string::npos; at = key.find('\\', at + 2)) {
    const char next = at + 1 < key.size() ? key[at + 1] : '.';
    const bool letter = (next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z');
    if (letter && kKnown.find(next) == std::string_view::npos) return false;
  }
  return true;
}

// Without what could make an expression large or slow: {n}, and looking ahead.
bool is_modest(const std::string& key) {
  constexpr size_t kLongest = 200;
  for (const char* costly : {"{", "(?=", "(?!"}) {
    if (key.find(costly) != std::string::npos) return false;
  }
  return key.size() <= kLongest;
}

std::regex make_expression(const std::string& key, const ConfigReader& reader) {
  auto syntax = std::regex::ECMAScript;
#if defined(__GLIBCXX__)
  syntax |= std::regex_constants::__polynomial;  // time in proportion to the name
#endif
  try {
    if (is_modest(key) && has_known_escapes(key)) return std::regex("(?:.*\\.)?(?:" + key + ")", syntax);
  } catch (const std::regex_error&) {
  }
  reader.refuse("a pattern's key", "'" + printable(key, 60) + "'",
                "a regular expression for names of modules");
}

// Any character stands for itself, or is a dot, which stands for any.
bool is_plain(const std::string& key) {
  return std::ranges::all_of(key, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  });
}

template <typename Read>
std::vector<ModulePattern> read_patterns(const ConfigReader& reader, const char* name, Read read) {
  std::vector<ModulePattern> patterns;
  const nlohmann::json* object = reader.object(name);
  if (!object) return patterns;
  const ConfigReader inner(*object, reader.origin());
  for (const auto& [key, value] : object->items()) {
    if (value.is_null())
      reader.refuse(fmt::format("{} of '{}'", name, printable(key, 60)), "null", "a number");
    ModulePattern pattern{key, std::nullopt, read(inner, key.c_str())};
    if (!is_plain(key)) pattern.expression = make_expression(key, reader);
    patterns.push_back(std::move(pattern));
  }
  return patterns;
}

double value_for(const std::string& module, const std::vector<ModulePattern>& patterns, double otherwise) {
  const auto fits = [&](const ModulePattern& pattern) { return pattern.fits(module); };
  const auto it = std::ranges::find_if(patterns, fits);
  return it == patterns.end() ? otherwise : it->value;
}

}  // namespace

bool ModulePattern::fits(const std::string& module) const {
  if (expression) return std::regex_match(module, *expression);
  if (module.size() < key.size()) return false;
  const size_t start = module.size() - key.size();
  if (start > 0 && module[start - 1] != '.') return false;
  return std::equal(key.begin(), key.end(), module.begin() + static_cast<std::ptrdiff_t>(start),
                    [](char of_key, char c) { return of_key == '.' || of_key == c; });
}

int64_t AdapterConfig::rank_of(const std::string& module) const {
  return static_cast<int64_t>(value_for(module, ranks, static_cast<double>(rank)));
}

double AdapterConfig::scale_of(const std::string& module) const {
  const auto own_rank = static_cast<double>(rank_of(module));
  return value_for(module, alphas, alpha) / (by_root ? std::sqrt(own_rank) : own_rank);
}

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
  check_kind(reader);
  check_start(reader);
  AdapterConfig config;
  config.rank = reader.positive("r");
  config.alpha = reader.number_or("lora_alpha", static_cast<double>(config.rank));
  config.by_root = reader.flag_or("use_rslora", false);
  config.ranks = read_patterns(reader, "rank_pattern", [](const ConfigReader& inner, const char* key) {
    return static_cast<double>(inner.positive(key));
  });
  config.alphas = read_patterns(reader, "alpha_pattern", [](const ConfigReader& inner, const char* key) {
    return inner.number_or(key, 0);
  });
  config.gate = read_gate(reader);
  config.whole_modules = read_whole_modules(reader);
  return config;
}

}  // namespace openwork
