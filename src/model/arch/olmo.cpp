// OLMo (Groeneveld et al. 2024): Llama's shape with LayerNorm that has no weights, and q, k, v optionally
// clamped to +-clip_qkv.
#include "model/arch/llama_family.h"

namespace openwork {
namespace {

ModelConfig read_config(const ConfigReader& reader) {
  ModelConfig config = read_llama_family_config(reader, 2048);
  config.norm = NormKind::kPlainLayerNorm;
  config.norm_epsilon = 1e-5;  // fixed in OLMo's own code
  config.clip_qkv = reader.optional_number("clip_qkv");
  return config;
}

nlohmann::json config_from_gguf(const nlohmann::json& metadata) {
  nlohmann::json config = shared_gguf_config(metadata, "olmo");
  config["model_type"] = "olmo";
  const double clamp = ConfigReader(metadata, "GGUF metadata").number_or("olmo.attention.clamp_kqv", 0.0);
  if (clamp > 0) config["clip_qkv"] = clamp;
  return config;
}

}  // namespace

const Architecture& olmo_architecture() {
  static const Architecture kOlmo = {
      .model_type = "olmo",
      .gguf_name = "olmo",
      .names = llama_family_names(),
      .gguf_names = llama_family_gguf_names(),
      .gguf_layouts = {{Role::kQuery, Layout::kRopeInterleaved}, {Role::kKey, Layout::kRopeInterleaved}},
      .optional_prefix = "",
      .ignored = {".rotary_emb.inv_freq"},
      .read_config = read_config,
      .config_from_gguf = config_from_gguf,
  };
  return kOlmo;
}

}  // namespace openwork
