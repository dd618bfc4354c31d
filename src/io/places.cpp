// Folders out of environment variables and the program's own place.
#include "io/places.h"

#include <cstdlib>
#include <system_error>

namespace openwork {
namespace {

namespace fs = std::filesystem;

fs::path hosted_folder;  // set_builtin_folder

// "~/x" as the shell would have it, for values that were set where no shell reads them.
fs::path expand_home(const std::string& text) {
  const std::string home = environment_value("HOME");
  if (home.empty() || !text.starts_with("~/")) return text;
  return fs::path(home) / text.substr(2);
}

fs::path user_cache() {
  const std::string shared = environment_value("XDG_CACHE_HOME");
  if (!shared.empty()) return expand_home(shared);
  const std::string home = environment_value("HOME");
  return home.empty() ? fs::path() : fs::path(home) / ".cache";
}

fs::path below(const fs::path& folder, const char* name) {
  return folder.empty() ? folder : folder / name;
}

fs::path fetched_folder() {
  const std::string own = environment_value("OPENWORK_CACHE");
  return own.empty() ? below(user_cache(), "openwork") : expand_home(own);
}

fs::path hub_folder() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {  // the second is the older name
    const std::string value = environment_value(name);
    if (!value.empty()) return expand_home(value);
  }
  const std::string home = environment_value("HF_HOME");
  return below(home.empty() ? below(user_cache(), "huggingface") : expand_home(home), "hub");
}

std::vector<fs::path> builtin_folders() {
  std::vector<fs::path> folders;
  const std::string listed = environment_value("OPENWORK_MODELS");
  for (size_t start = 0; start < listed.size();) {
    const size_t end = std::min(listed.find(':', start), listed.size());
    if (end > start) folders.push_back(expand_home(listed.substr(start, end - start)));
    start = end + 1;
  }
  if (!hosted_folder.empty()) {
    folders.push_back(hosted_folder);
    return folders;
  }
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return folders;
  const fs::path beside = program.parent_path();
  for (const fs::path& folder : {beside.parent_path() / "models", beside / "models",
                                 beside.parent_path() / "share" / "openwork" / "models"}) {
    folders.push_back(folder);
  }
  return folders;
}

}  // namespace

std::string environment_value(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void set_builtin_folder(const fs::path& folder) {
  hosted_folder = folder;
}

ModelPlaces find_model_places() {
  return {builtin_folders(), fetched_folder(), hub_folder()};
}

}  // namespace openwork
