#include "model/arch/llama_family.h"

#include <fmt/format.h>

namespace openwork {

ModelConfig read_llama_family_config(const ConfigReader& reader, int64_t context_fallback) {
  ModelConfig config;
  config.layers = reader.positive("num_hidden_layers");
  config.heads = reader.positive("num_attention_heads");
  config.kv_heads = reader.positive_or("num_key_value_heads", config.heads);
  config.width = reader.positive("hidden_size");
  config.inner = reader.positive("intermediate_size");
  config.vocabulary = reader.positive("vocab_size");
  config.context = reader.positive_or("max_position_embeddings", context_fallback);
  if (reader.json().value("head_dim", nlohmann::json()).is_null() && config.width % config.heads != 0) {
    reader.refuse("hidden_size", std::to_string(config.width),
                  "a multiple of num_attention_heads " + std::to_string(config.heads));
  }
  config.head_size = reader.positive_or("head_dim", config.width / config.heads);
  config.positions = Positions::kRotary;
  config.rope =
      read_rope(reader, config.head_size, config.context, reader.number_or("partial_rotary_factor", 1.0),
                reader.number_or("rope_theta", 10000.0));
  if (config.rope.rotary_size != config.head_size) {
    const double share = static_cast<double>(config.rope.rotary_size) / static_cast<double>(config.head_size);
    reader.refuse("partial_rotary_factor", fmt::format("{}", share), "1: these models turn whole heads");
  }
  config.activation = read_activation(reader, "hidden_act", "silu");
  config.gated_mlp = true;
  config.qkv_layout = QkvLayout::kSeparate;
  config.qkv_bias = config.output_bias = reader.flag_or("attention_bias", false);
  config.mlp_bias = reader.flag_or("mlp_bias", false);
  config.tied = reader.flag_or("tie_word_embeddings", false);
  config.padding_token = reader.optional_id("pad_token_id");
  if (config.padding_token && *config.padding_token < 0)
    *config.padding_token += config.vocabulary;  // counts from the end
  if (config.padding_token && (*config.padding_token < 0 || *config.padding_token >= config.vocabulary)) {
    config.padding_token.reset();
  }
  return config;
}

const NameTable& llama_family_names() {
  static const NameTable kNames = {{Role::kEmbedding, "model.embed_tokens"},
                                   {Role::kNorm1, "model.layers.{}.input_layernorm"},
                                   {Role::kQuery, "model.layers.{}.self_attn.q_proj"},
                                   {Role::kKey, "model.layers.{}.self_attn.k_proj"},
                                   {Role::kValue, "model.layers.{}.self_attn.v_proj"},
                                   {Role::kAttentionOutput, "model.layers.{}.self_attn.o_proj"},
                                   {Role::kGateBias, "model.layers.{}.self_attn.gate_bias"},
                                   {Role::kGateIdle, "model.layers.{}.self_attn.gate_idle"},
                                   {Role::kNorm2, "model.layers.{}.post_attention_layernorm"},
                                   {Role::kGate, "model.layers.{}.mlp.gate_proj"},
                                   {Role::kUp, "model.layers.{}.mlp.up_proj"},
                                   {Role::kDown, "model.layers.{}.mlp.down_proj"},
                                   {Role::kFinalNorm, "model.norm"},
                                   {Role::kUnembedding, "lm_head"}};
  return kNames;
}

const NameTable& llama_family_gguf_names() {
  static const NameTable kNames = {
      {Role::kEmbedding, "token_embd"},  {Role::kNorm1, "blk.{}.attn_norm"},
      {Role::kQuery, "blk.{}.attn_q"},   {Role::kKey, "blk.{}.attn_k"},
      {Role::kValue, "blk.{}.attn_v"},   {Role::kAttentionOutput, "blk.{}.attn_output"},
      {Role::kNorm2, "blk.{}.ffn_norm"}, {Role::kGate, "blk.{}.ffn_gate"},
      {Role::kUp, "blk.{}.ffn_up"},      {Role::kDown, "blk.{}.ffn_down"},
      {Role::kFinalNorm, "output_norm"}, {Role::kUnembedding, "output"}};
  return kNames;
}

}  // namespace openwork
