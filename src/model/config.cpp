#include "model/config.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <utility>

#include "base/error.h"

namespace openwork {

double ModelConfig::score_scale(int64_t layer) const {
  double scale = scale_scores ? 1.0 / std::sqrt(static_cast<double>(head_size)) : 1.0;
  if (scale_by_layer) scale /= static_cast<double>(layer + 1);
  return scale;
}

GateKind parse_gate(const std::string& name, const std::string& where) {
  if (const auto gate = find_gate(name)) return *gate;
  fail_input(fmt::format("unknown gate '{}'", name), where, fmt::format("use {}", kGateNames));
}

ConfigReader::ConfigReader(const nlohmann::json& config, std::string origin)
    : config_(config), origin_(std::move(origin)) {
  if (!config.is_object()) fail_input("the configuration is not a JSON object", origin_, "check the file");
}

const nlohmann::json* ConfigReader::find(const char* key) const {
  const auto it = config_.find(key);
  return it == config_.end() || it->is_null() ? nullptr : &*it;
}

void ConfigReader::refuse(const std::string& key, const std::string& seen, const std::string& wanted) const {
  fail_input(fmt::format("{} is {}, wanted {}", key, seen, wanted), origin_, "correct the configuration");
}

namespace {

// Far above any model, and low enough that a list with an entry for each takes little memory: a small file must
// not ask for all of it before its weights are looked for.
int64_t largest_size(std::string_view key) {
  constexpr int64_t kLayers = 10000, kHeads = 1 << 16, kWidth = 1 << 20;
  static const std::map<std::string_view, int64_t> kLargest = {{"n_layer", kLayers},
                                                               {"num_hidden_layers", kLayers},
                                                               {"n_head", kHeads},
                                                               {"num_attention_heads", kHeads},
                                                               {"num_key_value_heads", kHeads},
                                                               {"n_embd", kWidth},
                                                               {"hidden_size", kWidth},
                                                               {"n_inner", 4 * kWidth},
                                                               {"intermediate_size", 4 * kWidth},
                                                               {"head_dim", kWidth},
                                                               {"r", kHeads}};
  const auto it = kLargest.find(key);
  return it != kLargest.end() ? it->second : int64_t{1} << 31;  // products of two stay within 64 bits
}

}  // namespace

int64_t ConfigReader::positive(const char* key) const {
  if (!find(key)) refuse(key, "missing", "a whole number above 0");
  return positive_or(key, 0);
}

int64_t ConfigReader::positive_or(const char* key, int64_t fallback) const {
  const int64_t largest = largest_size(key);
  const nlohmann::json* value = find(key);
  if (!value) return fallback;
  if (!value->is_number_integer() || value->get<int64_t>() < 1 || value->get<int64_t>() > largest) {
    refuse(key, value->dump(), fmt::format("a whole number from 1 to {}", largest));
  }
  return value->get<int64_t>();
}

double ConfigReader::not_negative_or(const char* key, double fallback) const {
  const double value = number_or(key, fallback);
  if (value < 0) refuse(key, fmt::format("{}", value), "a number of at least 0");
  return value;
}

double ConfigReader::number_or(const char* key, double fallback) const {
  return optional_number(key).value_or(fallback);
}

std::optional<double> ConfigReader::optional_number(const char* key) const {
  const nlohmann::json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_number() || !std::isfinite(value->get<double>())) refuse(key, value->dump(), "a number");
  return value->get<double>();
}

bool ConfigReader::flag_or(const char* key, bool fallback) const {
  const nlohmann::json* value = find(key);
  if (!value) return fallback;
  if (!value->is_boolean()) refuse(key, value->dump(), "true or false");
  return value->get<bool>();
}

std::string ConfigReader::text_or(const char* key, const std::string& fallback) const {
  const nlohmann::json* value = find(key);
  if (!value) return fallback;
  if (!value->is_string()) refuse(key, value->dump(), "a text");
  return value->get<std::string>();
}

std::optional<int64_t> ConfigReader::optional_id(const char* key) const {
  const nlohmann::json* value = find(key);
  if (value && value->is_array() && !value->empty()) value = &value->front();
  if (!value || !value->is_number_integer()) return std::nullopt;
  return value->get<int64_t>();
}

const nlohmann::json* ConfigReader::object(const char* key) const {
  const nlohmann::json* value = find(key);
  if (value && !value->is_object()) refuse(key, value->dump(), "an object");
  return value;
}

Activation read_activation(const ConfigReader& reader, const char* key, const char* fallback) {
  static const std::map<std::string, Activation> kKnown = {{"gelu", Activation::kGelu},
                                                           {"gelu_python", Activation::kGelu},
                                                           {"gelu_new", Activation::kGeluTanh},
                                                           {"gelu_fast", Activation::kGeluTanh},
                                                           {"gelu_accurate", Activation::kGeluTanh},
                                                           {"gelu_pytorch_tanh", Activation::kGeluTanh},
                                                           {"gelu_python_tanh", Activation::kGeluTanh},
                                                           {"quick_gelu", Activation::kQuickGelu},
                                                           {"relu", Activation::kRelu},
                                                           {"silu", Activation::kSilu},
                                                           {"swish", Activation::kSilu}};
  const std::string name = reader.text_or(key, fallback);
  const auto it = kKnown.find(name);
  if (it == kKnown.end()) {
    reader.refuse(key, "'" + name + "'",
                  "gelu, gelu_new, gelu_fast, gelu_pytorch_tanh, quick_gelu, relu or silu");
  }
  return it->second;
}

namespace {

// transformers 5 writes rope_parameters; before it, rope_theta stood at the top and rope_scaling beside it. Where
// a file has both, transformers goes by rope_scaling.
const nlohmann::json& rope_object(const ConfigReader& reader) {
  static const nlohmann::json kEmpty = nlohmann::json::object();
  const nlohmann::json* parameters = reader.object("rope_scaling");
  if (!parameters || parameters->empty()) parameters = reader.object("rope_parameters");
  return parameters ? *parameters : kEmpty;
}

// The context that the frequencies were made for, by the key that transformers reads for this kind.
int64_t read_original_context(const ConfigReader& reader, const ConfigReader& inner, const std::string& kind,
                              int64_t context) {
  constexpr const char* kKey = "original_max_position_embeddings";
  if (kind == "dynamic") return context;
  return reader.positive_or(kKey, inner.positive_or(kKey, context));
}

}  // namespace

Rope read_rope(const ConfigReader& reader, int64_t head_size, int64_t context, double share_fallback,
               double theta_fallback) {
  const ConfigReader inner(rope_object(reader), reader.origin());
  Rope rope;
  rope.kind = inner.text_or("rope_type", inner.text_or("type", "default"));
  rope.theta = inner.number_or("rope_theta", theta_fallback);
  const double share = inner.number_or("partial_rotary_factor", share_fallback);
  if (!(rope.theta > 0)) reader.refuse("rope_theta", fmt::format("{}", rope.theta), "a number above 0");
  if (!(share > 0 && share <= 1))
    reader.refuse("partial_rotary_factor", fmt::format("{}", share), "within (0, 1]");
  rope.rotary_size = static_cast<int64_t>(static_cast<double>(head_size) * share);
  if (rope.rotary_size < 2 || rope.rotary_size % 2 != 0) {
    reader.refuse("rotary size", fmt::format("{}", rope.rotary_size), "an even number of 2 or more");
  }
  static const std::map<std::string, int> kKinds = {
      {"default", 0}, {"linear", 0}, {"llama3", 0}, {"yarn", 0}, {"dynamic", 0}};
  if (!kKinds.count(rope.kind)) {
    reader.refuse("rope_type", "'" + rope.kind + "'", "default, linear, dynamic, llama3 or yarn");
  }
  rope.original_context = read_original_context(reader, inner, rope.kind, context);
  const double growth = static_cast<double>(context) / static_cast<double>(rope.original_context);
  rope.factor = inner.number_or("factor", rope.kind == "yarn" ? growth : 1.0);
  if (!(rope.factor > 0)) reader.refuse("rope factor", fmt::format("{}", rope.factor), "a number above 0");
  rope.low_frequency_factor = inner.number_or("low_freq_factor", 1.0);
  rope.high_frequency_factor = inner.number_or("high_freq_factor", 4.0);
  rope.beta_fast = inner.number_or("beta_fast", 32.0);
  rope.beta_slow = inner.number_or("beta_slow", 1.0);
  rope.attention_factor = inner.optional_number("attention_factor");
  rope.mscale = inner.optional_number("mscale");
  rope.mscale_all_dim = inner.optional_number("mscale_all_dim");
  rope.truncate = inner.flag_or("truncate", true);
  return rope;
}

GateKind read_gate(const ConfigReader& reader) {
  if (const nlohmann::json* gate = reader.object("attention_gate")) {
    const ConfigReader inner(*gate, reader.origin());
    const int64_t version = inner.positive_or("version", 1);
    if (version != 1) reader.refuse("attention_gate.version", fmt::format("{}", version), "1");
    return parse_gate(inner.text_or("kind", ""), reader.origin());
  }
  return reader.flag_or("use_sparse_attn", false) ? GateKind::kScore : GateKind::kNone;
}

}  // namespace openwork
