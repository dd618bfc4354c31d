// What Llama, OLMo and OLMo-2 have in common: rotary positions, a gated SiLU MLP, separate q, k, v that may be
// grouped, and the names of both checkpoint kinds. Their files say what differs.
#pragma once
#include "model/architecture.h"

namespace openwork {

ModelConfig read_llama_family_config(const ConfigReader& reader, int64_t context_fallback);
const NameTable& llama_family_names();
const NameTable& llama_family_gguf_names();

}  // namespace openwork
