// A compact difference to a base model: every matrix as the base's plus a rounded change,
//   W_ij = base_ij + (c_ij - (2^bits - 1) / 2) * scale_i,     c_ij one of 2^bits codes, scale_i one per row
// and small tensors (norms, biases, gate biases and idle scores) whole. On disk (docs/formats.md):
//   openwork_delta.safetensors   NAME.codes U8 [rows, ceil(columns bits / 8)], NAME.scales F16 [rows]; NAME
//   F32 config.json                  the model's, attention_gate, and openwork_delta: {version, base,
//   base_sha256, bits}
// Training may end on weights rounded this way (train/weight_rounding.h), so that what is shipped is what was
// trained.
#pragma once
#include <filesystem>
#include <string>

#include "model/delta_format.h"
#include "model/load.h"
#include "model/transformer.h"

namespace openwork {

inline constexpr const char* kDeltaFile = "openwork_delta.safetensors";

// The most bits that fit into `megabytes` (10^6 bytes): attention first, then MLPs, then embeddings, one more
// bit at a time. Fails where not even one bit for attention fits.
DeltaPlan plan_delta(const ModelConfig& config, double megabytes);

// The change rounded to codes and their scales, and back. change [rows, columns] float32, any device.
struct RoundedChange {
  Tensor codes;   // [rows, columns] uint8, one code each
  Tensor scales;  // [rows] float16
};
RoundedChange round_change(const Tensor& change, int bits);
Tensor expand_change(const RoundedChange& rounded, int bits);  // [rows, columns] float32

struct DeltaBase {
  std::string name;             // as locate_model finds it
  std::filesystem::path path;   // its files, for their hash
  const NamedTensors& weights;  // its parameters, in any order
};
// `parameters` of a model with the base's shapes, in list_parameters' order.
void save_delta(const std::filesystem::path& folder, const ModelConfig& config,
                const NamedTensors& parameters, const DeltaBase& base, const DeltaPlan& plan);

bool is_delta(const std::filesystem::path& folder);

// Fails where the base is another than the one the difference was taken to.
Transformer load_delta_model(const std::filesystem::path& base, const std::filesystem::path& folder,
                             const LoadOptions& options = {});

}  // namespace openwork
