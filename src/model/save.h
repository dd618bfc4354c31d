// Saving a model as a Hugging Face folder that load_model (and transformers, where the model is dense) opens:
// config.json is the one it was read from, with attention_gate where it is gated; model.safetensors has the
// names of the Hugging Face checkpoint. Gate biases and idle scores stay float32 whatever the dtype.
#pragma once
#include <filesystem>
#include <string>

#include "io/safetensors.h"
#include "model/transformer.h"

namespace openwork {

// Creates the folder. Each file is whole or absent; config.json comes last. `parameters` in list_parameters'
// order.
void save_model(const std::filesystem::path& folder, const ModelConfig& config,
                const NamedTensors& parameters, at::ScalarType dtype = at::kFloat);

// A tensor as save_tensors writes it, in its own dtype, brought to the CPU piece by piece.
OutputTensor output_of(const std::string& name, const Tensor& tensor);
void write_pieces(const Tensor& tensor, const ByteSink& sink);

// A tensor file of any named tensors, each in its own dtype, brought to the CPU piece by piece.
void save_tensors(const std::filesystem::path& file, const NamedTensors& tensors);

// The config.json of a saved model: the one it was read from, with what the numbers here say where that said
// otherwise.
nlohmann::json make_config(const ModelConfig& config, at::ScalarType dtype);

// {"kind": ..., "version": 1}
nlohmann::json describe_gate(GateKind gate);

}  // namespace openwork
