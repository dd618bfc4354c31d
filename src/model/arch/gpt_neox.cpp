// GPT-NeoX (Black et al. 2022) and Pythia: rotary positions on a part of each head, attention and MLP side by
// side on the same input (unless use_parallel_residual is off), q, k and v fused head by head, biases everywhere.
#include <cmath>

#include "model/architecture.h"

namespace openwork {
namespace {

ModelConfig read_config(const ConfigReader& reader) {
  ModelConfig config;
  config.layers = reader.positive("num_hidden_layers");
  config.heads = config.kv_heads = reader.positive("num_attention_heads");
  config.width = reader.positive("hidden_size");
  config.inner = reader.positive("intermediate_size");
  config.vocabulary = reader.positive("vocab_size");
  config.context = reader.positive_or("max_position_embeddings", 2048);
  if (config.width % config.heads != 0) {
    reader.refuse("hidden_size", std::to_string(config.width),
                  "a multiple of num_attention_heads " + std::to_string(config.heads));
  }
  config.head_size = config.width / config.heads;
  config.positions = Positions::kRotary;
  // Not rope_theta and partial_rotary_factor, should a file have them at its top: transformers passes over them.
  config.rope = read_rope(reader, config.head_size, config.context, reader.number_or("rotary_pct", 0.25),
                          reader.number_or("rotary_emb_base", 10000.0));
  config.norm = NormKind::kLayerNorm;
  config.norm_epsilon = reader.not_negative_or("layer_norm_eps", 1e-5);
  config.activation = read_activation(reader, "hidden_act", "gelu");
  config.parallel_residual = reader.flag_or("use_parallel_residual", true);
  config.qkv_layout = QkvLayout::kFusedPerHead;
  config.qkv_bias = config.output_bias = reader.flag_or("attention_bias", true);
  config.mlp_bias = true;
  config.tied = reader.flag_or("tie_word_embeddings", false);
  return config;
}

nlohmann::json config_from_gguf(const nlohmann::json& metadata) {
  nlohmann::json config = shared_gguf_config(metadata, "gptneox");
  const ConfigReader shared(config, "GGUF metadata"), keys(metadata, "GGUF metadata");
  const int64_t head_size = shared.positive("hidden_size") / shared.positive("num_attention_heads");
  const int64_t rotary = keys.positive_or("gptneox.rope.dimension_count", head_size);
  const double share = static_cast<double>(rotary) / static_cast<double>(head_size);
  config["model_type"] = "gpt_neox";
  config["use_parallel_residual"] = keys.flag_or("gptneox.use_parallel_residual", true);
  // The next number up: share * head_size, cut to a whole number, must not fall below `rotary`.
  config["rope_parameters"]["partial_rotary_factor"] = std::nextafter(share, 1.0);
  return config;
}

}  // namespace

const Architecture& gpt_neox_architecture() {
  static const Architecture kGptNeox = {
      .model_type = "gpt_neox",
      .gguf_name = "gptneox",
      // The unembedding is embed_out in files; transformers 5 calls it lm_head, which is the name shown.
      .names = {{Role::kEmbedding, "gpt_neox.embed_in"},
                {Role::kNorm1, "gpt_neox.layers.{}.input_layernorm"},
                {Role::kQkv, "gpt_neox.layers.{}.attention.query_key_value"},
                {Role::kAttentionOutput, "gpt_neox.layers.{}.attention.dense"},
                {Role::kGateBias, "gpt_neox.layers.{}.attention.gate_bias"},
                {Role::kGateIdle, "gpt_neox.layers.{}.attention.gate_idle"},
                {Role::kNorm2, "gpt_neox.layers.{}.post_attention_layernorm"},
                {Role::kUp, "gpt_neox.layers.{}.mlp.dense_h_to_4h"},
                {Role::kDown, "gpt_neox.layers.{}.mlp.dense_4h_to_h"},
                {Role::kFinalNorm, "gpt_neox.final_layer_norm"},
                {Role::kUnembedding, "lm_head"}},
      .gguf_names = {{Role::kEmbedding, "token_embd"},
                     {Role::kNorm1, "blk.{}.attn_norm"},
                     {Role::kQkv, "blk.{}.attn_qkv"},
                     {Role::kAttentionOutput, "blk.{}.attn_output"},
                     {Role::kNorm2, "blk.{}.ffn_norm"},
                     {Role::kUp, "blk.{}.ffn_up"},
                     {Role::kDown, "blk.{}.ffn_down"},
                     {Role::kFinalNorm, "output_norm"},
                     {Role::kUnembedding, "output"}},
      .gguf_layouts = {{Role::kQkv, Layout::kQkvBlocks}},
      .optional_prefix = "",
      .ignored = {".attention.bias", ".attention.masked_bias", ".rotary_emb.inv_freq"},
      .read_config = read_config,
      .config_from_gguf = config_from_gguf,
      .file_names = {{Role::kUnembedding, "embed_out"}},
  };
  return kGptNeox;
}

}  // namespace openwork
