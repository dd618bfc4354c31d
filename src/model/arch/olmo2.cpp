// OLMo-2 (OLMo team 2025): Llama's shape with the RMS norms on the outputs of attention and MLP instead of
// their inputs, and RMS norms over all of q and all of k.
#include "model/arch/llama_family.h"

namespace openwork {
namespace {

ModelConfig read_config(const ConfigReader& reader) {
  ModelConfig config = read_llama_family_config(reader, 2048);
  config.norm = NormKind::kRmsNorm;
  config.norm_placement = NormPlacement::kAfter;
  config.norm_epsilon = reader.not_negative_or("rms_norm_eps", 1e-5);
  config.qk_norm = true;
  return config;
}

nlohmann::json config_from_gguf(const nlohmann::json& metadata) {
  nlohmann::json config = shared_gguf_config(metadata, "olmo2");
  config["model_type"] = "olmo2";
  return config;
}

// kNorm1 is the norm after attention, kNorm2 the one after the MLP.
NameTable with_norms_after(NameTable names, const char* after_attention, const char* after_mlp,
                           const char* query_norm, const char* key_norm) {
  names[Role::kNorm1] = after_attention;
  names[Role::kNorm2] = after_mlp;
  names[Role::kQueryNorm] = query_norm;
  names[Role::kKeyNorm] = key_norm;
  return names;
}

}  // namespace

const Architecture& olmo2_architecture() {
  static const Architecture kOlmo2 = {
      .model_type = "olmo2",
      .gguf_name = "olmo2",
      .names = with_norms_after(llama_family_names(), "model.layers.{}.post_attention_layernorm",
                                "model.layers.{}.post_feedforward_layernorm",
                                "model.layers.{}.self_attn.q_norm", "model.layers.{}.self_attn.k_norm"),
      .gguf_names = with_norms_after(llama_family_gguf_names(), "blk.{}.post_attention_norm",
                                     "blk.{}.post_ffw_norm", "blk.{}.attn_q_norm", "blk.{}.attn_k_norm"),
      .gguf_layouts = {},
      .optional_prefix = "",
      .ignored = {".rotary_emb.inv_freq"},
      .read_config = read_config,
      .config_from_gguf = config_from_gguf,
  };
  return kOlmo2;
}

}  // namespace openwork
