// GPT-2 (Radford et al. 2019): learned positions, LayerNorm before each block, fused q|k|v with biases,
// a tanh-GELU MLP four times as wide, and the embedding used again as the unembedding.
// Its weights lie transposed ([in, out], "Conv1D"). The published Sparse GPT-2 is this with a score gate.
#include "model/architecture.h"

namespace openwork {
namespace {

ModelConfig read_config(const ConfigReader& reader) {
  ModelConfig config;
  config.layers = reader.positive("n_layer");
  config.heads = config.kv_heads = reader.positive("n_head");
  config.width = reader.positive("n_embd");
  config.inner = reader.positive_or("n_inner", 4 * config.width);
  config.vocabulary = reader.positive("vocab_size");
  config.context = reader.positive_or("n_positions", 1024);
  if (config.width % config.heads != 0) {
    reader.refuse("n_embd", std::to_string(config.width),
                  "a multiple of n_head " + std::to_string(config.heads));
  }
  config.head_size = config.width / config.heads;
  config.positions = Positions::kLearned;
  config.norm = NormKind::kLayerNorm;
  config.norm_epsilon = reader.not_negative_or("layer_norm_epsilon", 1e-5);
  config.activation = read_activation(reader, "activation_function", "gelu_new");
  config.qkv_layout = QkvLayout::kFusedBlocks;
  config.transposed_linear = true;
  config.qkv_bias = config.output_bias = config.mlp_bias = true;
  config.scale_scores = reader.flag_or("scale_attn_weights", true);
  config.scale_by_layer = reader.flag_or("scale_attn_by_inverse_layer_idx", false);
  config.tied = reader.flag_or("tie_word_embeddings", true);
  if (reader.flag_or("add_cross_attention", false)) reader.refuse("add_cross_attention", "true", "false");
  return config;
}

nlohmann::json config_from_gguf(const nlohmann::json& metadata) {
  nlohmann::json shared = shared_gguf_config(metadata, "gpt2");
  nlohmann::json config = {{"model_type", "gpt2"}, {"activation_function", "gelu_new"}};
  const auto rename = [&](const char* from, const char* to) {
    if (shared.contains(from)) config[to] = shared[from];
  };
  rename("num_hidden_layers", "n_layer");
  rename("num_attention_heads", "n_head");
  rename("hidden_size", "n_embd");
  rename("intermediate_size", "n_inner");
  rename("max_position_embeddings", "n_positions");
  rename("layer_norm_eps", "layer_norm_epsilon");
  rename("vocab_size", "vocab_size");
  rename("bos_token_id", "bos_token_id");
  rename("eos_token_id", "eos_token_id");
  return config;
}

}  // namespace

const Architecture& gpt2_architecture() {
  static const Architecture kGpt2 = {
      .model_type = "gpt2",
      .gguf_name = "gpt2",
      .names = {{Role::kEmbedding, "transformer.wte"},
                {Role::kPositions, "transformer.wpe"},
                {Role::kNorm1, "transformer.h.{}.ln_1"},
                {Role::kQkv, "transformer.h.{}.attn.c_attn"},
                {Role::kAttentionOutput, "transformer.h.{}.attn.c_proj"},
                {Role::kGateBias, "transformer.h.{}.attn.gate_bias"},
                {Role::kGateIdle, "transformer.h.{}.attn.gate_idle"},
                {Role::kNorm2, "transformer.h.{}.ln_2"},
                {Role::kUp, "transformer.h.{}.mlp.c_fc"},
                {Role::kDown, "transformer.h.{}.mlp.c_proj"},
                {Role::kFinalNorm, "transformer.ln_f"},
                {Role::kUnembedding, "lm_head"}},
      .gguf_names = {{Role::kEmbedding, "token_embd"},
                     {Role::kPositions, "position_embd"},
                     {Role::kNorm1, "blk.{}.attn_norm"},
                     {Role::kQkv, "blk.{}.attn_qkv"},
                     {Role::kAttentionOutput, "blk.{}.attn_output"},
                     {Role::kNorm2, "blk.{}.ffn_norm"},
                     {Role::kUp, "blk.{}.ffn_up"},
                     {Role::kDown, "blk.{}.ffn_down"},
                     {Role::kFinalNorm, "output_norm"},
                     {Role::kUnembedding, "output"}},
      .gguf_layouts = {{Role::kQkv, Layout::kTransposed},
                       {Role::kAttentionOutput, Layout::kTransposed},
                       {Role::kUp, Layout::kTransposed},
                       {Role::kDown, Layout::kTransposed}},
      .optional_prefix = "transformer.",
      .ignored = {".attn.bias", ".attn.masked_bias"},
      .read_config = read_config,
      .config_from_gguf = config_from_gguf,
  };
  return kGpt2;
}

}  // namespace openwork
