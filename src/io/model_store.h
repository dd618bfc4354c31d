// From a name as people type it to files on this machine; nothing is read but names and small headers,
// nothing is fetched. A MODEL is looked for, in this order, as
//   a path         a folder in Hugging Face layout, a .gguf or other weights file, a tokenizer.json
//   a built-in     a sub-folder with a config.json (or adapter_config.json) of a models folder (places.h)
//   fetched        smollm2-135m, in openwork's cache
//   a hub id       [hf:]ORG/REPO[@REVISION] in the Hugging Face cache
// A folder with no config.json and one .gguf stands for that file. MODEL+ADAPTER names a pair. An adapter
// named alone brings the base model its adapter_config.json names.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/places.h"

namespace openwork {

enum class ModelKind { kFolder, kFile, kGguf, kBuiltin, kFetched, kHubCache };

std::string_view model_kind_name(
    ModelKind kind);  // "folder", "file", "gguf", "built-in", "fetched", "hub cache"

struct LocatedModel {
  std::string name;            // as it was asked for
  std::filesystem::path path;  // an existing folder or file
  ModelKind kind = ModelKind::kFolder;
  std::string origin;                            // where it was found, in words
  std::optional<std::filesystem::path> adapter;  // the adapter's folder, where there is one
};

// Fails naming what was looked for, near names, and what to do.
LocatedModel locate_model(std::string_view name, const ModelPlaces& places = find_model_places());

struct ModelListing {
  std::string name;
  ModelKind kind = ModelKind::kFolder;
  std::filesystem::path path;
  uint64_t bytes = 0;        // of all its files
  std::string architecture;  // config.json's model_type, or the GGUF's; "" where it does not say
};

// Built-in, fetched and cached models, in this order and by name. A built-in hidden by another of its name is
// left out, as are hub entries without any file.
std::vector<ModelListing> list_models(const ModelPlaces& places = find_model_places());

// What tells two models apart in protocols. A file: its sha256, as sha256sum gives it. A folder: the sha256
// of one line `NAME SIZE SHA256\n` for each of its weights and configuration files, sorted by name;
// tokenizers, cards and sub-folders do not count. Files are read on all threads.
std::string model_hash(const std::filesystem::path& path);

// The same of a model as it was located: of a pair, the sha256 of both hashes, one line each.
std::string model_hash(const LocatedModel& model);

}  // namespace openwork
