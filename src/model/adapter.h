// LoRA: a weight W [out, in] becomes W + (alpha / rank) B A with A [rank, in], B [out, rank]. On disk as PEFT
// has it:
//   adapter_config.json         r, lora_alpha, target_modules, base_model_name_or_path; and attention_gate
//   adapter_model.safetensors   base_model.model.MODULE.lora_A.weight, .lora_B.weight; ATTENTION.gate_bias,
//                               with gate `idle` ATTENTION.gate_idle
// PEFT's users read the first two and pass over the gates; `MODEL+ADAPTER` names the pair here.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "model/load.h"
#include "model/transformer.h"

namespace openwork {

struct LoraOptions {
  int64_t rank = 16;
  double alpha = 16;
  std::vector<std::string> targets = {"all"};  // module names (q_proj, c_attn, ...), or all, attention, mlp
};

// Which parameters of a model `options.targets` names, as parameter names; fails on a name that none has.
std::vector<std::string> find_lora_targets(const ModelConfig& config, const LoraOptions& options);

// W + (alpha / rank) B A, in W's layout ([in, out] where the configuration says transposed) and dtype.
Tensor add_lora(const Tensor& weight, const Tensor& a, const Tensor& b, double scale, bool transposed);

// The module of a parameter: its name without ".weight".
std::string module_name(const std::string& parameter);

// `tensors`: MODULE.lora_A.weight, MODULE.lora_B.weight, gate biases and idle scores, as float32 on the CPU.
void save_adapter(const std::filesystem::path& folder, const ModelConfig& config, const LoraOptions& options,
                  const NamedTensors& tensors, const std::string& base_name);

// The base model with an adapter merged in and its gate put on, or with a compact difference (delta.h). Every
// tensor of the adapter must fit.
Transformer load_adapted_model(const std::filesystem::path& base, const std::filesystem::path& adapter,
                               const LoadOptions& options = {});

}  // namespace openwork
