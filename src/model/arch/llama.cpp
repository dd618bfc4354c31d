// Llama (Touvron et al. 2023; Llama 3) and its shape: SmolLM2 and many others. RMS norm before each block,
// rotary positions over whole heads, grouped queries, a gated SiLU MLP, no biases unless the configuration asks.
#include "model/arch/llama_family.h"

namespace openwork {
namespace {

ModelConfig read_config(const ConfigReader& reader) {
  ModelConfig config = read_llama_family_config(reader, 2048);
  config.norm = NormKind::kRmsNorm;
  config.norm_epsilon = reader.not_negative_or("rms_norm_eps", 1e-6);
  return config;
}

nlohmann::json config_from_gguf(const nlohmann::json& metadata) {
  nlohmann::json config = shared_gguf_config(metadata, "llama");
  config["model_type"] = "llama";
  return config;
}

}  // namespace

const Architecture& llama_architecture() {
  static const Architecture kLlama = {
      .model_type = "llama",
      .gguf_name = "llama",
      .names = llama_family_names(),
      .gguf_names = llama_family_gguf_names(),
      .gguf_layouts = {{Role::kQuery, Layout::kRopeInterleaved}, {Role::kKey, Layout::kRopeInterleaved}},
      .optional_prefix = "",
      .ignored = {".rotary_emb.inv_freq"},
      .read_config = read_config,
      .config_from_gguf = config_from_gguf,
  };
  return kLlama;
}

}  // namespace openwork
