#include "analyze/trace/traced_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/progress.h"
#include "io/model_store.h"
#include "transcode/transcoder_config.h"
#include "transcode/transcoder_files.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

// The folder a model's files are in: an adapter's own, not its base's.
fs::path own_folder(const std::string& name) {
  const LocatedModel located = locate_model(name);
  const fs::path path = located.adapter.value_or(located.path);
  return fs::is_directory(path) ? path : path.parent_path();
}

// The folders of choose_transcoders, unopened.
std::vector<std::string> name_folders(const std::vector<std::string>& given,
                                      const std::vector<std::string>& models) {
  std::vector<std::string> folders = given;
  if (!folders.empty() && folders.size() != models.size()) {
    fail_input(fmt::format("{} transcoder folders for {} models", folders.size(), models.size()),
               "--transcoder", "give one for each model, in their order (none: whole MLPs), or leave it out");
  }
  if (!folders.empty()) {
    std::replace(folders.begin(), folders.end(), std::string("none"), std::string());
    return folders;
  }
  for (const std::string& model : models) {
    const fs::path folder = own_folder(model) / "transcoders";
    folders.push_back(fs::is_directory(folder) ? folder.string() : "");
  }
  if (std::find(folders.begin(), folders.end(), "") == folders.end()) return folders;
  for (size_t n = 0; n < models.size(); ++n) {
    if (!folders[n].empty())
      note(fmt::format("{} has transcoders and another model has none: MLPs are nodes in all", models[n]));
    folders[n].clear();
  }
  return folders;
}

}  // namespace

std::string TracedModel::text_of(int64_t id) const {
  if (!tokenizer || id < 0 || id >= tokenizer->size()) return fmt::format("{}", id);
  return tokenizer->piece(static_cast<int32_t>(id));
}

int64_t TracedModel::count_beginning(const std::vector<int64_t>& ids) const {
  const auto [end, _] = std::mismatch(beginning.begin(), beginning.end(), ids.begin(), ids.end());
  return end == beginning.end() ? static_cast<int64_t>(beginning.size()) : 0;
}

std::vector<FeatureFolder> choose_transcoders(const std::vector<std::string>& given,
                                              const std::vector<std::string>& models) {
  std::vector<FeatureFolder> folders;
  for (const std::string& folder : name_folders(given, models))
    folders.push_back(open_feature_folder(folder));
  return folders;
}

TracedModel attach_transcoders(Transformer model, const std::string& name, const std::string& title,
                               FeatureFolder folder) {
  TracedModel traced{.name = name,
                     .title = title,
                     .model = std::move(model),
                     .transcoders = {},
                     .files = {},
                     .descriptions = {},
                     .tokenizer = {},
                     .beginning = {}};
  if (folder.path.empty()) return traced;
  traced.transcoders = load_transcoders(folder.path, traced.model.device());
  check_transcoders_fit(*traced.transcoders, traced.model.config(), model_hash(locate_model(name)),
                        folder.path);
  if (folder.descriptions) check_descriptions_fit(*folder.descriptions, *traced.transcoders, folder.path);
  traced.descriptions = std::move(folder.descriptions);
  traced.files = {.path = fs::path(folder.path).filename().string(),
                  .sha256 = model_hash(folder.path),
                  .kind = kind_name(traced.transcoders->kind),
                  .scan = traced.transcoders->scan,
                  .features = traced.transcoders->layers.front().features()};
  return traced;
}

const FeatureDescription* find_description(const TracedModel& traced, const TraceNode& node) {
  if (!traced.descriptions || node.kind != TraceNodeKind::kFeature) return nullptr;
  const auto& layers = traced.descriptions->layers;
  const size_t layer = static_cast<size_t>(node.layer), feature = static_cast<size_t>(node.feature);
  return layer < layers.size() && feature < layers[layer].size() ? &layers[layer][feature] : nullptr;
}

std::string label_node(const TracedModel& traced, const TraceNode& node) {
  if (node.kind == TraceNodeKind::kLogit || node.kind == TraceNodeKind::kEmbedding)
    return traced.text_of(node.feature);
  const FeatureDescription* about = find_description(traced, node);
  std::map<int32_t, int> counts;
  int32_t most = -1;
  for (const FeatureContext& context : about ? about->contexts : std::vector<FeatureContext>()) {
    const int32_t token = context.tokens.at(static_cast<size_t>(context.peak));
    if (++counts[token] > (most < 0 ? 0 : counts[most])) most = token;
  }
  return most < 0 ? "" : traced.text_of(most);
}

std::vector<std::string> list_words(const TracedModel& traced, const TraceNode& node) {
  std::vector<std::string> words;
  if (const FeatureDescription* about = find_description(traced, node)) {
    for (const int32_t token : about->top_logits) words.push_back(traced.text_of(token));
  }
  return words;
}

}  // namespace openwork
