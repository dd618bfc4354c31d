// LoRA: a weight W [out, in] becomes W + (alpha / rank) B A with A [rank, in], B [out, rank]; modules that are
// trained whole have their own weight and bias instead. On disk as PEFT has it:
//   adapter_config.json         r, lora_alpha (of single modules in rank_pattern, alpha_pattern), target_modules,
//                               modules_to_save (the whole ones, where there are any), base_model_name_or_path;
//                               and attention_gate
//   adapter_model.safetensors   base_model.model.MODULE.lora_A.weight, .lora_B.weight; of whole modules
//                               base_model.model.MODULE.weight, .bias in the base's layout; ATTENTION.gate_bias,
//                               with gate `idle` ATTENTION.gate_idle
// PEFT's users read all but the gates, which they pass over; `MODEL+ADAPTER` names the pair here.
#pragma once
#include <filesystem>
#include <string>

#include "model/adapter_modules.h"
#include "model/load.h"
#include "model/transformer.h"

namespace openwork {

// W + (alpha / rank) B A, in W's layout ([in, out] where the configuration says transposed) and dtype.
Tensor add_lora(const Tensor& weight, const Tensor& a, const Tensor& b, double scale, bool transposed);

// `tensors`: MODULE.lora_A.weight, MODULE.lora_B.weight, parameters of whole modules, gate biases and idle
// scores, as float32 on the CPU. `dtype` is that of whole modules in the file; the others stay float32.
void save_adapter(const std::filesystem::path& folder, const ModelConfig& config, const LoraOptions& options,
                  const NamedTensors& tensors, const std::string& base_name,
                  at::ScalarType dtype = at::kFloat);

// The base model with an adapter merged in and its gate put on, or with a compact difference (delta.h). Every
// tensor of the adapter must fit.
Transformer load_adapted_model(const std::filesystem::path& base, const std::filesystem::path& adapter,
                               const LoadOptions& options = {});

}  // namespace openwork
