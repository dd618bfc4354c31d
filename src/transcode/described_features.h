// A folder of transcoders with what its features are about: read as far as it can be without its model, then opened
// and held against it.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "model/config.h"
#include "transcode/descriptions.h"
#include "transcode/feature_list.h"

namespace openwork {

// What is read before any weights are opened, so that what is wrong with it is said first and costs little.
struct FeatureFolder {
  std::string path;                          // empty: no transcoders
  std::optional<Descriptions> descriptions;  // where the folder has them
};

// Reads the folder's configuration and its descriptions; fails in one line naming the file that is wrong. An empty
// path is no folder.
FeatureFolder open_feature_folder(const std::string& path);

// Fails where they were made when the transcoders were others.
void check_descriptions_fit(const Descriptions& descriptions, const Transcoders& transcoders,
                            const std::string& folder);

struct DescribedFeatures {
  std::string folder;
  Transcoders transcoders;
  Descriptions descriptions;

  const FeatureDescription& of(int64_t layer, int64_t feature) const {
    return descriptions.layers[static_cast<size_t>(layer)][static_cast<size_t>(feature)];
  }
};

// Fails where the transcoders are of another model, not described, or described when they were others.
DescribedFeatures open_described(FeatureFolder folder, const ModelConfig& config,
                                 const std::string& model_hash);

// A file for every feature that was found, those that are like it among them; says how many. Makes the folder.
size_t write_found(const std::filesystem::path& folder, const std::vector<FoundFeature>& found,
                   const DescribedFeatures& set, const Tokenizer& tokenizer);

}  // namespace openwork
