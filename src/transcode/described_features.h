// A folder of transcoders with what its features are about, opened together and held against its model.
#pragma once
#include <string>
#include <vector>

#include "model/config.h"
#include "transcode/descriptions.h"
#include "transcode/feature_list.h"

namespace openwork {

struct DescribedFeatures {
  std::string folder;
  Transcoders transcoders;
  Descriptions descriptions;

  const FeatureDescription& of(int64_t layer, int64_t feature) const {
    return descriptions.layers[static_cast<size_t>(layer)][static_cast<size_t>(feature)];
  }
};

// Fails where the transcoders are of another model, not described, or described when they were others.
DescribedFeatures open_described(const std::string& folder, const ModelConfig& config,
                                 const std::string& model_hash);

// A file for every feature that was found, those that are like it among them; says how many. Makes the folder.
size_t write_found(const std::filesystem::path& folder, const std::vector<FoundFeature>& found,
                   const DescribedFeatures& set, const Tokenizer& tokenizer);

}  // namespace openwork
