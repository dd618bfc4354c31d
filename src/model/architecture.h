// What an architecture is: how its config.json reads, what its weights are called, and how other files
// (GGUF) name and lay out the same numbers. Each file of model/arch/ defines one; nothing about an
// architecture is decided anywhere else.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"

namespace openwork {

// The part a weight plays. Names are tables from role to a pattern in which {} is the layer.
enum class Role {
  kEmbedding,
  kPositions,
  kNorm1,
  kQkv,
  kQuery,
  kKey,
  kValue,
  kQueryNorm,
  kKeyNorm,
  kAttentionOutput,
  kGateBias,
  kGateIdle,
  kNorm2,
  kUp,
  kGate,
  kDown,
  kFinalNorm,
  kUnembedding,
};

// A number per head of the attention gate: float32 whatever the weights are, no module's weight or bias.
constexpr bool is_gate(Role role) {
  return role == Role::kGateBias || role == Role::kGateIdle;
}

using NameTable = std::map<Role, std::string>;

// How numbers of a GGUF file are brought to the layout of the Hugging Face checkpoint.
enum class Layout {
  kSame,
  kTransposed,       // [out, in] there, [in, out] here: GPT-2's Conv1D
  kRopeInterleaved,  // rows of each head paired (0, 1), (2, 3) there, (0, n/2), (1, n/2 + 1) here
  kQkvBlocks,        // rows [q | k | v] there, [q k v] per head here: GPT-NeoX
};

struct Architecture {
  std::string_view model_type;  // in config.json
  std::string_view gguf_name;   // general.architecture in a GGUF file
  NameTable names;              // as in the Hugging Face checkpoint, without .weight / .bias
  NameTable gguf_names;
  std::map<Role, Layout> gguf_layouts;    // roles not listed: kSame
  std::string_view optional_prefix;       // may be missing from every name in a file ("transformer.")
  std::vector<std::string_view> ignored;  // buffers that old files carry: names that end so are passed over
  ModelConfig (*read_config)(const ConfigReader& reader);
  nlohmann::json (*config_from_gguf)(const nlohmann::json& metadata);  // the equal config.json
  NameTable file_names = {};  // roles that Hugging Face files name otherwise than transformers does
};

const Architecture& gpt2_architecture();
const Architecture& gpt_neox_architecture();
const Architecture& llama_architecture();
const Architecture& olmo_architecture();
const Architecture& olmo2_architecture();

const std::vector<const Architecture*>& all_architectures();
const Architecture& architecture_named(const std::string& model_type, const std::string& where);

// One parameter that a model of this configuration has.
struct ParameterSpec {
  Role role;
  int64_t layer = -1;  // -1: not of a layer
  bool bias = false;
  std::string name;  // as in the Hugging Face checkpoint
  std::vector<int64_t> shape;
};

std::vector<ParameterSpec> list_parameters(const Architecture& architecture, const ModelConfig& config);

// The whole name of a role's tensor: the table's pattern with the layer put in, and its ending.
std::string tensor_name(const NameTable& names, Role role, int64_t layer, bool bias);

// ModelConfig from a config.json (by its model_type) or from GGUF metadata (by general.architecture).
ModelConfig read_model_config(const nlohmann::json& config, const std::string& origin);
nlohmann::json config_from_gguf(const nlohmann::json& metadata, const std::string& origin);

// The head, width and context numbers that all GGUF architectures keep under their own prefix.
nlohmann::json shared_gguf_config(const nlohmann::json& metadata, const std::string& prefix);

}  // namespace openwork
