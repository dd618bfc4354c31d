// Weights to begin from: GPT-2's initialisation. Matrices and embeddings are normal with the configuration's
// initializer_range (0.02 where it has none), projections back into the residual stream smaller by 1/sqrt(2
// layers), norms 1, biases 0. Drawn on the CPU from the seed in list_parameters' order, so that every device
// begins the same.
#pragma once
#include <filesystem>

#include "model/transformer.h"

namespace openwork {

// gate none; a gate that the configuration names is left to put_gates.
Transformer draw_model(ModelConfig config, uint64_t seed);

// The ModelConfig of a config.json, or of the folder that holds it.
ModelConfig read_config_file(const std::filesystem::path& path);

}  // namespace openwork
