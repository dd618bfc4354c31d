// What features are about: for each, the places of a text where it is most active, how often it is active at
// all, and the tokens that what it writes speaks for and against. Made from the same held-out blocks as the
// report and saved beside the transcoders as features.json.zst (docs/formats.md); tokens are ids there, texts
// here are the tokenizer's.
#pragma once
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "text/documents.h"
#include "text/tokenizer.h"
#include "transcode/transcoder.h"

namespace openwork {

inline constexpr const char* kDescriptionsFile = "features.json.zst";

struct FeatureContext {
  std::vector<int32_t> tokens;      // up to kTokensBefore before the peak and kTokensAfter after it
  std::vector<double> activations;  // at each of them, three digits
  int64_t peak = 0;                 // which of them is the most active one
};
inline constexpr int64_t kTokensBefore = 8, kTokensAfter = 3;

struct FeatureDescription {
  double largest = 0;                              // activation anywhere in the text
  double density = 0;                              // share of the text's tokens it is active at
  std::vector<FeatureContext> contexts;            // most active first, one of a block at most
  std::vector<int32_t> top_logits, bottom_logits;  // tokens whose logits its decoder raises and lowers most
};

struct Descriptions {
  std::string model, model_sha256;
  int64_t tokens = 0;                                   // of the text
  std::vector<std::vector<FeatureDescription>> layers;  // [layer][feature]
};

// The `contexts` most active places of every feature. Transcoders on the model's device.
Descriptions describe_features(const Transformer& model, const Transcoders& transcoders,
                               const TokenBlocks& blocks, int64_t contexts,
                               const std::function<void(int64_t)>& advance = nullptr);

void save_descriptions(const std::filesystem::path& folder, const Descriptions& descriptions);
// None where the folder has no features.json.zst; fails in one line on a bad one.
std::optional<Descriptions> load_descriptions(const std::filesystem::path& folder);

// The form public viewers read feature details in (neuronpedia's feature-details schema). Its index pairs
// layer and feature as circuit-tracer does: (l + f)(l + f + 1) / 2 + f.
int64_t pair_index(int64_t layer, int64_t feature);
nlohmann::json feature_details(const FeatureDescription& description, int64_t layer, int64_t feature,
                               const Tokenizer& tokenizer);

// That as folder/INDEX.json, of one feature and of all. The folder is there (the first), or is made (the second).
void write_feature_details(const std::filesystem::path& folder, const FeatureDescription& description,
                           int64_t layer, int64_t feature, const Tokenizer& tokenizer);
void write_feature_details(const std::filesystem::path& folder, const Descriptions& descriptions,
                           const Tokenizer& tokenizer);

}  // namespace openwork
