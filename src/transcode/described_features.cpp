#include "transcode/described_features.h"

#include <fmt/format.h>

#include "base/error.h"
#include "io/safe_files.h"
#include "transcode/transcoder_files.h"

namespace openwork {
namespace {

bool are_of(const Descriptions& descriptions, const Transcoders& transcoders) {
  if (descriptions.layers.size() != transcoders.layers.size()) return false;
  for (size_t n = 0; n < descriptions.layers.size(); ++n) {
    if (static_cast<int64_t>(descriptions.layers[n].size()) != transcoders.layers[n].features()) return false;
  }
  return true;
}

}  // namespace

void check_descriptions_fit(const Descriptions& descriptions, const Transcoders& transcoders,
                            const std::string& folder) {
  if (!are_of(descriptions, transcoders))
    fail_input("descriptions of other transcoders", folder, "describe them anew: --measure --describe 5");
}

FeatureFolder open_feature_folder(const std::string& path) {
  if (path.empty()) return {};
  check_transcoder_folder(path);
  return {path, load_descriptions(path)};
}

DescribedFeatures open_described(FeatureFolder folder, const ModelConfig& config,
                                 const std::string& model_hash) {
  if (!folder.descriptions) {
    fail_input(fmt::format("no {}", kDescriptionsFile), folder.path,
               "describe them: openwork transcode MODEL --measure FOLDER --data FILE --describe 5");
  }
  DescribedFeatures set;
  set.folder = folder.path;
  set.transcoders = load_transcoders(folder.path);
  check_transcoders_fit(set.transcoders, config, model_hash, folder.path);
  check_descriptions_fit(*folder.descriptions, set.transcoders, folder.path);
  set.descriptions = std::move(*folder.descriptions);
  return set;
}

size_t write_found(const std::filesystem::path& folder, const std::vector<FoundFeature>& found,
                   const DescribedFeatures& set, const Tokenizer& tokenizer) {
  make_folder(folder);
  size_t files = 0;
  for (const FoundFeature& one : found) {
    std::vector<int64_t> all = one.alike;
    all.push_back(one.feature);
    for (const int64_t feature : all)
      write_feature_details(folder, set.of(one.layer, feature), one.layer, feature, tokenizer);
    files += all.size();
  }
  return files;
}

}  // namespace openwork
