#include "model/architecture.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "model/head_lists.h"

namespace openwork {
namespace {

using Shape = std::vector<int64_t>;

// Gathers specs in the order of the forward pass.
class SpecList {
 public:
  SpecList(const Architecture& architecture, const ModelConfig& config)
      : names_(architecture.names), config_(config) {}

  void add(Role role, int64_t layer, bool bias, Shape shape) {
    specs_.push_back({role, layer, bias, tensor_name(names_, role, layer, bias), std::move(shape)});
  }

  void add_norm(Role role, int64_t layer, int64_t size) {
    if (config_.norm == NormKind::kPlainLayerNorm) return;
    add(role, layer, false, {size});
    if (config_.norm == NormKind::kLayerNorm) add(role, layer, true, {size});
  }

  void add_linear(Role role, int64_t layer, int64_t in, int64_t out, bool bias) {
    add(role, layer, false, config_.transposed_linear ? Shape{in, out} : Shape{out, in});
    if (bias) add(role, layer, true, {out});
  }

  std::vector<ParameterSpec> take() { return std::move(specs_); }

 private:
  const NameTable& names_;
  const ModelConfig& config_;
  std::vector<ParameterSpec> specs_;
};

void add_attention(SpecList& list, const ModelConfig& config, int64_t layer) {
  const auto heads = static_cast<int64_t>(kept_queries(config, layer).size());
  const auto kv_heads = static_cast<int64_t>(kept_key_values(config, layer).size());
  if (heads == 0) {  // what a layer without heads adds to the stream is its output's bias
    if (config.output_bias) list.add(Role::kAttentionOutput, layer, true, {config.width});
    return;
  }
  const int64_t q_size = heads * config.head_size, kv_size = kv_heads * config.head_size;
  // A norm over all of q is one of heads that are gone as well: q and k are kept whole for it.
  const int64_t normed_q = config.qk_norm ? config.heads * config.head_size : q_size;
  const int64_t normed_k = config.qk_norm ? config.kv_heads * config.head_size : kv_size;
  if (config.qkv_layout == QkvLayout::kSeparate) {
    list.add_linear(Role::kQuery, layer, config.width, normed_q, config.qkv_bias);
    list.add_linear(Role::kKey, layer, config.width, normed_k, config.qkv_bias);
    list.add_linear(Role::kValue, layer, config.width, kv_size, config.qkv_bias);
  } else {
    list.add_linear(Role::kQkv, layer, config.width, q_size + 2 * kv_size, config.qkv_bias);
  }
  if (config.qk_norm) {
    list.add(Role::kQueryNorm, layer, false, {normed_q});
    list.add(Role::kKeyNorm, layer, false, {normed_k});
  }
  list.add_linear(Role::kAttentionOutput, layer, q_size, config.width, config.output_bias);
  if (config.gate != GateKind::kNone) list.add(Role::kGateBias, layer, false, {heads});
  if (config.gate == GateKind::kIdle) list.add(Role::kGateIdle, layer, false, {heads});
}

void add_mlp(SpecList& list, const ModelConfig& config, int64_t layer) {
  if (config.gated_mlp) list.add_linear(Role::kGate, layer, config.width, config.inner, config.mlp_bias);
  list.add_linear(Role::kUp, layer, config.width, config.inner, config.mlp_bias);
  list.add_linear(Role::kDown, layer, config.inner, config.width, config.mlp_bias);
}

// Dynamic frequencies are there to read texts of `factor` times the length the model was trained for.
int64_t longest_text(const ModelConfig& config) {
  constexpr double kLargest = static_cast<double>(int64_t{1} << 31);
  if (config.positions != Positions::kRotary || config.rope.kind != "dynamic") return config.context;
  const double stretched = static_cast<double>(config.context) * std::max(1.0, config.rope.factor);
  return static_cast<int64_t>(std::min(stretched, kLargest));
}

void check_heads(const ModelConfig& config, const ConfigReader& reader) {
  if (config.heads % config.kv_heads != 0) {
    reader.refuse("number of heads", fmt::format("{}", config.heads),
                  fmt::format("a multiple of the {} key/value heads", config.kv_heads));
  }
  if (config.qkv_layout != QkvLayout::kSeparate && config.kv_heads != config.heads) {
    reader.refuse("number of key/value heads", fmt::format("{}", config.kv_heads), "the number of heads");
  }
}

}  // namespace

const std::vector<const Architecture*>& all_architectures() {
  static const std::vector<const Architecture*> kAll = {&gpt2_architecture(), &gpt_neox_architecture(),
                                                        &llama_architecture(), &olmo_architecture(),
                                                        &olmo2_architecture()};
  return kAll;
}

const Architecture& architecture_named(const std::string& model_type, const std::string& where) {
  std::string known;
  for (const Architecture* architecture : all_architectures()) {
    if (architecture->model_type == model_type) return *architecture;
    known += (known.empty() ? "" : ", ") + std::string(architecture->model_type);
  }
  fail_input(fmt::format("unknown architecture '{}'", printable(model_type)), where,
             "known ones are " + known);
}

std::string tensor_name(const NameTable& names, Role role, int64_t layer, bool bias) {
  const std::string& pattern = names.at(role);
  std::string name = layer < 0 ? pattern : fmt::format(fmt::runtime(pattern), layer);
  if (is_gate(role)) return name;  // a tensor of its own, not a module
  return name + (bias ? ".bias" : ".weight");
}

std::vector<ParameterSpec> list_parameters(const Architecture& architecture, const ModelConfig& config) {
  SpecList list(architecture, config);
  list.add(Role::kEmbedding, -1, false, {config.vocabulary, config.width});
  if (config.positions == Positions::kLearned)
    list.add(Role::kPositions, -1, false, {config.context, config.width});
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    list.add_norm(Role::kNorm1, layer, config.width);
    add_attention(list, config, layer);
    list.add_norm(Role::kNorm2, layer, config.width);
    add_mlp(list, config, layer);
  }
  list.add_norm(Role::kFinalNorm, -1, config.width);
  if (!config.tied) list.add(Role::kUnembedding, -1, false, {config.vocabulary, config.width});
  if (config.unembed_bias) list.add(Role::kUnembedding, -1, true, {config.vocabulary});
  return list.take();
}

ModelConfig read_model_config(const nlohmann::json& config, const std::string& origin) {
  const ConfigReader reader(config, origin);
  const std::string model_type = reader.text_or("model_type", "");
  if (model_type.empty()) reader.refuse("model_type", "missing", "the architecture's name, e.g. 'gpt2'");
  ModelConfig result = architecture_named(model_type, origin).read_config(reader);
  result.architecture = model_type;
  result.gate = read_gate(reader);
  result.beginning_token = reader.optional_id("bos_token_id");
  result.end_token = reader.optional_id("eos_token_id");
  result.source = config;
  result.context = longest_text(result);
  check_heads(result, reader);
  result.kept_heads = read_kept_heads(reader, result);
  return result;
}

nlohmann::json config_from_gguf(const nlohmann::json& metadata, const std::string& origin) {
  const std::string name = ConfigReader(metadata, origin).text_or("general.architecture", "");
  for (const Architecture* architecture : all_architectures()) {
    if (architecture->gguf_name == name) return architecture->config_from_gguf(metadata);
  }
  fail_input(fmt::format("unknown architecture '{}'", printable(name)), origin,
             "GGUF files of llama, gpt2, gptneox, olmo and olmo2 are read");
}

namespace {

// rope_parameters as a config.json has them. A factor without a type is a linear one, as llama.cpp reads it, and
// scale_linear is the factor's old key.
nlohmann::json gguf_rope(const nlohmann::json& metadata, const std::string& prefix) {
  nlohmann::json rope = {{"rope_theta", 10000.0}};
  const auto take = [&](const char* to, const std::string& key) {
    if (metadata.contains(prefix + key)) rope[to] = metadata[prefix + key];
  };
  take("rope_theta", "freq_base");
  take("factor", "scale_linear");
  if (rope.contains("factor") && rope["factor"] == 0) rope.erase("factor");
  take("factor", "scaling.factor");
  if (rope.contains("factor")) rope["rope_type"] = "linear";
  take("rope_type", "scaling.type");
  if (rope.value("rope_type", nlohmann::json("none")) == "none") rope["rope_type"] = "default";
  take("original_max_position_embeddings", "scaling.original_context_length");
  take("attention_factor", "scaling.yarn_attn_factor");
  take("beta_fast", "scaling.yarn_beta_fast");
  take("beta_slow", "scaling.yarn_beta_slow");
  return rope;
}

}  // namespace

nlohmann::json shared_gguf_config(const nlohmann::json& metadata, const std::string& prefix) {
  nlohmann::json config;
  const auto take = [&](const char* to, const std::string& key) {
    if (metadata.contains(key)) config[to] = metadata[key];
  };
  take("num_hidden_layers", prefix + ".block_count");
  take("hidden_size", prefix + ".embedding_length");
  take("intermediate_size", prefix + ".feed_forward_length");
  take("num_attention_heads", prefix + ".attention.head_count");
  take("num_key_value_heads", prefix + ".attention.head_count_kv");
  take("max_position_embeddings", prefix + ".context_length");
  take("vocab_size", prefix + ".vocab_size");
  take("head_dim", prefix + ".attention.key_length");
  take("rms_norm_eps", prefix + ".attention.layer_norm_rms_epsilon");
  take("layer_norm_eps", prefix + ".attention.layer_norm_epsilon");
  take("bos_token_id", "tokenizer.ggml.bos_token_id");
  take("eos_token_id", "tokenizer.ggml.eos_token_id");
  const auto tokens = metadata.find("tokenizer.ggml.tokens");
  if (!config.contains("vocab_size") && tokens != metadata.end() && tokens->is_array())
    config["vocab_size"] = tokens->size();

  config["rope_parameters"] = gguf_rope(metadata, prefix + ".rope.");
  return config;
}

}  // namespace openwork
