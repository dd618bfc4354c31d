// Opening a model: its configuration and its weights, from a Hugging Face folder (safetensors, .pth, .bin; also
// a TransformerLens state dict, as the published Sparse GPT-2 is) or a GGUF file. Every parameter is looked for
// by name and checked for shape, dtype and finite numbers; what a file has too much is an error as well.
#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>

#include "io/tensor_file.h"
#include "model/transformer.h"

namespace openwork {

struct LoadOptions {
  at::ScalarType dtype = at::kFloat;
  at::Device device = at::kCPU;
  bool trainable = false;  // parameters that may be written to, with gradients on
};

Transformer load_model(const std::filesystem::path& path, const LoadOptions& options = {});

// The configuration alone, as load_model would read it.
ModelConfig load_config(const std::filesystem::path& path);

}  // namespace openwork
