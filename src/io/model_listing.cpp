// The list behind `openwork models`, and the hash that protocols carry.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "base/error.h"
#include "base/parallel.h"
#include "io/hub_cache.h"
#include "io/model_store.h"
#include "io/package.h"
#include "io/safe_files.h"
#include "io/sha256.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

uint64_t size_of_file(const fs::path& file) {
  std::error_code error;
  const uint64_t size = fs::file_size(file, error);
  return error ? 0 : size;
}

// Links count as what they point to; deeper folders (checkpoints, say) count too.
uint64_t size_on_disk(const fs::path& folder) {
  uint64_t total = 0;
  std::error_code error;
  for (auto entry = fs::recursive_directory_iterator(folder, error);
       entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    if (is_file(entry->path())) total += size_of_file(entry->path());
  }
  return total;
}

// `general.architecture` where it is the file's first key, as every writer has it; the rest is not read.
std::string gguf_architecture(const fs::path& path) {
  constexpr std::string_view kKey = "general.architecture";
  constexpr size_t kKeyAt = 24, kTypeAt = kKeyAt + 8 + kKey.size(), kTextAt = kTypeAt + 12;
  constexpr uint32_t kStringType = 8;
  std::string head(512, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(file.gcount()));
  if (head.size() < kTextAt || !head.starts_with("GGUF") || head.substr(kKeyAt + 8, kKey.size()) != kKey)
    return "";
  uint64_t key_length = 0, length = 0;
  uint32_t type = 0;
  std::memcpy(&key_length, head.data() + kKeyAt, sizeof key_length);
  std::memcpy(&type, head.data() + kTypeAt, sizeof type);
  std::memcpy(&length, head.data() + kTypeAt + 4, sizeof length);
  if (key_length != kKey.size() || type != kStringType || length > head.size() - kTextAt) return "";
  return printable(head.substr(kTextAt, length), 60);
}

std::string text_member(const nlohmann::json& object, const char* name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return object.is_object() && found != object.end() && found->is_string()
             ? printable(found->get<std::string>(), 60)
             : "";
}

std::string folder_architecture(const fs::path& folder) {
  std::ifstream config(folder / "config.json");
  if (config) {
    const auto json = nlohmann::json::parse(config, nullptr, false);
    const nlohmann::json gate =
        json.is_object() ? json.value("attention_gate", nlohmann::json()) : nlohmann::json();
    const std::string kind = text_member(gate, "kind");
    return text_member(json, "model_type") + (kind.empty() ? "" : ", " + kind + " gates");
  }
  std::ifstream adapter(folder / "adapter_config.json");
  if (adapter) {
    return "adapter of " +
           text_member(nlohmann::json::parse(adapter, nullptr, false), "base_model_name_or_path");
  }
  for (const fs::path& file : sorted_entries(folder)) {
    if (file.extension() == ".gguf") return gguf_architecture(file);
  }
  return "";
}

ModelListing describe_folder(std::string name, ModelKind kind, const fs::path& folder) {
  return {std::move(name), kind, folder, size_on_disk(folder), folder_architecture(folder)};
}

void list_builtin(std::vector<ModelListing>& models, const ModelPlaces& places) {
  std::set<std::string> seen;
  const size_t first = models.size();
  for (const fs::path& place : places.builtin) {
    for (const fs::path& folder : sorted_entries(place)) {
      const bool is_model = is_file(folder / "config.json") || is_file(folder / "adapter_config.json");
      if (!is_model || !seen.insert(folder.filename().string()).second) continue;
      models.push_back(
          describe_folder(folder.filename().string(), ModelKind::kBuiltin, folder.lexically_normal()));
    }
  }
  std::sort(models.begin() + static_cast<std::ptrdiff_t>(first), models.end(),
            [](const ModelListing& a, const ModelListing& b) { return a.name < b.name; });
}

void list_fetched(std::vector<ModelListing>& models, const ModelPlaces& places) {
  if (places.fetched.empty()) return;
  for (const PackagedModel& model : packaged_models()) {
    const fs::path path = packaged_model_path(model, places);
    if (!is_file(path)) continue;
    models.push_back({model.name, ModelKind::kFetched, path, size_of_file(path), gguf_architecture(path)});
  }
}

// One line for what refs/main points to, else one for each commit there is.
void list_hub_cache(std::vector<ModelListing>& models, const ModelPlaces& places) {
  if (places.hub.empty()) return;
  for (const std::string& id : list_hub_ids(places.hub)) {
    const HubCache cache(places.hub, id);
    std::vector<std::pair<std::string, fs::path>> found;
    if (const auto main = cache.find_snapshot("main")) {
      found.emplace_back(id, *main);
    } else {
      for (const std::string& commit : cache.commits())
        found.emplace_back(id + "@" + commit, cache.snapshot(commit));
    }
    for (const auto& [name, folder] : found) {
      ModelListing model = describe_folder(name, ModelKind::kHubCache, folder);
      if (model.bytes > 0) models.push_back(std::move(model));
    }
  }
}

bool is_part_of_hash(const fs::path& file) {
  const std::string name = file.filename().string();
  if (name == "config.json" || name == "adapter_config.json" || name.ends_with(".index.json")) return true;
  const std::string ending = file.extension().string();
  return ending == ".safetensors" || ending == ".gguf" || ending == ".bin" || ending == ".pth";
}

}  // namespace

std::vector<ModelListing> list_models(const ModelPlaces& places) {
  std::vector<ModelListing> models;
  list_builtin(models, places);
  list_fetched(models, places);
  list_hub_cache(models, places);
  return models;
}

std::string model_hash(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return sha256_of_file(path);
  std::vector<fs::path> files;
  for (const fs::path& file : sorted_entries(path)) {
    if (is_part_of_hash(file) && is_file(file)) files.push_back(file);
  }
  if (files.empty()) fail_input("no weights or configuration to hash", path.string(), "check the folder");
  std::vector<std::string> lines(files.size());
  parallel_for(files.size(), [&](size_t i) {
    lines[i] = fmt::format("{} {} {}\n", files[i].filename().string(), size_of_file(files[i]),
                           sha256_of_file(files[i]));
  });
  std::string text;
  for (const std::string& line : lines) text += line;
  return sha256_of_bytes(text);
}

std::string model_hash(const LocatedModel& model) {
  const std::string base = model_hash(model.path);
  return model.adapter ? sha256_of_bytes(base + "\n" + model_hash(*model.adapter) + "\n") : base;
}

}  // namespace openwork
