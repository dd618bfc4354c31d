// Removing heads from a model's weights (docs/prune.md). What a removed head wrote to the stream is gone; a head
// whose gates never open wrote nothing.
//   const Transformer smaller = prune_heads(model, {{0, 3}, {}, {1, 2, 5}});
//   save_pruned_model(folder, smaller, hash_of_the_source);
#pragma once
#include <filesystem>
#include <string>

#include "model/transformer.h"

namespace openwork {

// `kept`: original heads per layer, ascending, each of them one that the model still has (it may be pruned itself).
Transformer prune_heads(const Transformer& model, const std::vector<std::vector<int64_t>>& kept);

// A full-weight folder. `source_sha256` is of the model that has all its heads: what its transcoders know it by.
void save_pruned_model(const std::filesystem::path& folder, const Transformer& model,
                       const std::string& source_sha256, at::ScalarType dtype);

}  // namespace openwork
