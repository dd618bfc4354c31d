// Which heads a pruned model has, by its configuration alone (model/kept_heads.h says what that means for its tensors).
#pragma once
#include <cstdint>
#include <vector>

#include "model/architecture.h"

namespace openwork {

// Original numbers of the heads whose tensors a layer has, ascending: all of them in a model that was not pruned.
std::vector<int64_t> kept_queries(const ModelConfig& config, int64_t layer);
std::vector<int64_t> kept_key_values(const ModelConfig& config, int64_t layer);
int64_t count_kept_heads(const ModelConfig& config);  // query heads of all layers

// A config.json's kept_heads, checked against its original_heads and the configuration; empty where it has none.
std::vector<std::vector<int64_t>> read_kept_heads(const ConfigReader& reader, const ModelConfig& config);

ModelConfig with_all_heads(const ModelConfig& config);  // as it was before pruning

}  // namespace openwork
