// features.json.zst (description_json.h), the saved half of transcode/descriptions.h.
#include <fmt/format.h>

#include "base/error.h"
#include "io/atomic_file.h"
#include "io/safe_files.h"
#include "text/packed_text.h"
#include "transcode/description_json.h"
#include "transcode/descriptions.h"

namespace openwork {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

json to_json(const FeatureDescription& description) {
  json contexts = json::array();
  for (const FeatureContext& context : description.contexts) {
    contexts.push_back(
        {{"tokens", context.tokens}, {"activations", context.activations}, {"peak", context.peak}});
  }
  return {{"max", description.largest},
          {"density", description.density},
          {"contexts", contexts},
          {"top", description.top_logits},
          {"bottom", description.bottom_logits}};
}

FeatureDescription description_from_json(const json& j) {
  FeatureDescription description;
  description.largest = j.at("max"), description.density = j.at("density");
  j.at("top").get_to(description.top_logits);
  j.at("bottom").get_to(description.bottom_logits);
  for (const json& context : j.at("contexts")) {
    description.contexts.push_back(
        {context.at("tokens"), context.at("activations"), context.at("peak").get<int64_t>()});
  }
  return description;
}

}  // namespace

void save_descriptions(const fs::path& folder, const Descriptions& descriptions) {
  json layers = json::array();
  for (const auto& layer : descriptions.layers) {
    json features = json::array();
    for (const FeatureDescription& feature : layer) features.push_back(to_json(feature));
    layers.push_back(std::move(features));
  }
  const json whole = {{"version", 1},
                      {"model", descriptions.model},
                      {"model_sha256", descriptions.model_sha256},
                      {"tokens", descriptions.tokens},
                      {"layers", std::move(layers)}};
  const std::string text = whole.dump();
  const int level = text.size() < (size_t{16} << 20) ? 19 : 9;
  write_text_file(folder / kDescriptionsFile, pack_text(text, level));
}

std::optional<Descriptions> load_descriptions(const fs::path& folder) {
  const fs::path file = folder / kDescriptionsFile;
  if (!fs::exists(file)) return std::nullopt;
  const json whole = read_descriptions_json(file);
  Descriptions descriptions{whole["model"], whole["model_sha256"], whole["tokens"].get<int64_t>(), {}};
  for (const json& layer : whole["layers"]) {
    std::vector<FeatureDescription>& features = descriptions.layers.emplace_back();
    for (const json& feature : layer) features.push_back(description_from_json(feature));
  }
  return descriptions;
}

void write_feature_details(const fs::path& folder, const FeatureDescription& description, int64_t layer,
                           int64_t feature, const Tokenizer& tokenizer) {
  // Bytes of a token need not be UTF-8; they are shown with replacement characters rather than refused.
  write_text_file(folder / fmt::format("{}.json", pair_index(layer, feature)),
                  feature_details(description, layer, feature, tokenizer)
                          .dump(-1, ' ', false, json::error_handler_t::replace) +
                      "\n");
}

void write_feature_details(const fs::path& folder, const Descriptions& descriptions,
                           const Tokenizer& tokenizer) {
  make_folder(folder);
  for (size_t layer = 0; layer < descriptions.layers.size(); ++layer) {
    for (size_t feature = 0; feature < descriptions.layers[layer].size(); ++feature) {
      write_feature_details(folder, descriptions.layers[layer][feature], static_cast<int64_t>(layer),
                            static_cast<int64_t>(feature), tokenizer);
    }
  }
}

}  // namespace openwork
