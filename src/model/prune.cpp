#include "model/prune.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/error.h"
#include "model/kept_heads.h"
#include "model/save.h"

namespace openwork {
namespace {

// What transformers (GPT-2, before version 5) calls the same: {layer: [heads that are gone]}.
nlohmann::json list_gone_heads(const ModelConfig& config) {
  nlohmann::json gone = nlohmann::json::object();
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const std::vector<int64_t> kept = kept_queries(config, layer);
    for (int64_t head = 0; head < config.heads; ++head) {
      if (!std::binary_search(kept.begin(), kept.end(), head)) gone[std::to_string(layer)].push_back(head);
    }
  }
  return gone;
}

}  // namespace

Transformer prune_heads(const Transformer& model, const std::vector<std::vector<int64_t>>& kept) {
  const ModelConfig& from = model.config();
  ModelConfig to = from;
  to.kept_heads = kept;
  for (int64_t layer = 0; layer < from.layers; ++layer) {
    const std::vector<int64_t> had = kept_queries(from, layer), has = kept_queries(to, layer);
    if (!std::includes(had.begin(), had.end(), has.begin(), has.end()))
      fail("a head is to be kept that the model has not", "prune", "this is a defect: please report it");
  }
  return {to, move_heads(from, model.parameters(), to)};
}

void save_pruned_model(const std::filesystem::path& folder, const Transformer& model,
                       const std::string& source_sha256, at::ScalarType dtype) {
  ModelConfig config = model.config();
  config.source["kept_heads"] = config.kept_heads;
  config.source["original_heads"] = config.heads;
  config.source["source_sha256"] = source_sha256;
  if (config.architecture == "gpt2") config.source["pruned_heads"] = list_gone_heads(config);
  save_model(folder, config, model.parameters(), dtype);
}

}  // namespace openwork
