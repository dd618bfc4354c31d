// Names, folders, links and refs of the Hugging Face cache; every name is checked before it becomes a path.
#include "io/hub_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <system_error>

#include "base/error.h"
#include "io/atomic_file.h"
#include "io/safe_files.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kFolderPrefix = "models--";

// The hub's own rule for the two parts of an id. No "--" in a part, so that folder names can be read back.
bool is_id_part(std::string_view part) {
  if (part.empty() || part.size() > 96 || part.find("--") != part.npos || part.find("..") != part.npos)
    return false;
  if (std::string_view("-.").find(part.front()) != part.npos) return false;
  if (std::string_view("-.").find(part.back()) != part.npos) return false;
  return std::all_of(part.begin(), part.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
}

bool is_hub_id(std::string_view id) {
  const size_t slash = id.find('/');
  if (slash == id.npos) return is_id_part(id);
  return is_id_part(id.substr(0, slash)) && is_id_part(id.substr(slash + 1));
}

std::string folder_name(std::string id) {
  const size_t slash = id.find('/');
  if (slash != std::string::npos) id.replace(slash, 1, "--");
  return std::string(kFolderPrefix) + id;
}

std::string read_first_word(const fs::path& file) {
  std::ifstream input(file);
  std::string word;
  input >> word;
  return word;
}

}  // namespace

std::optional<HubName> parse_hub_name(std::string_view text) {
  if (text.starts_with("hf:")) text.remove_prefix(3);
  HubName name;
  const size_t at = text.find('@');
  name.id = text.substr(0, at);
  if (at != text.npos) name.revision = text.substr(at + 1);
  if (!is_hub_id(name.id) || !is_safe_relative_path(name.revision)) return std::nullopt;
  return name;
}

bool is_safe_relative_path(std::string_view name) {
  if (name.empty() || name.size() > 1000) return false;
  const auto is_odd = [](unsigned char c) { return c < 0x20 || c == 0x7f || c == '\\'; };
  if (std::any_of(name.begin(), name.end(), is_odd)) return false;
  for (size_t start = 0; start <= name.size();) {
    const size_t end = std::min(name.find('/', start), name.size());
    const std::string_view part = name.substr(start, end - start);
    if (part.empty() || part == "." || part == "..") return false;
    start = end + 1;
  }
  return true;
}

HubCache::HubCache(fs::path cache, std::string id)
    : cache_(std::move(cache)), folder_(cache_ / folder_name(std::move(id))) {}

fs::path HubCache::lock(const std::string& hash) const {
  return cache_ / ".locks" / folder_.filename() / (hash + ".lock");
}

void HubCache::link(const std::string& commit, const std::string& file, const std::string& hash) const {
  const fs::path target = snapshot(commit) / file;
  make_folder(target.parent_path());
  const fs::path relative = blob(hash).lexically_relative(target.parent_path());
  std::error_code error;
  if (fs::is_symlink(target, error) && fs::read_symlink(target, error) == relative) return;
  const fs::path beside =
      target.string() + ".part";  // the caller holds the blob's lock: nobody else makes it
  fs::remove(beside, error);
  fs::create_symlink(relative, beside, error);
  if (error) fs::copy_file(blob(hash), beside, error);
  if (error)
    fail(fmt::format("cannot make the link: {}", error.message()), target.string(), "check the permissions");
  rename_file(beside, target);
}

void HubCache::write_ref(const std::string& revision, const std::string& commit) const {
  if (revision == commit) return;
  const fs::path file = folder_ / "refs" / revision;
  if (read_first_word(file) == commit) return;  // a cache that may only be read stays of use
  make_folder(file.parent_path());
  write_text_file(file, commit);
}

std::optional<fs::path> HubCache::find_snapshot(const std::string& revision) const {
  if (!is_safe_relative_path(revision)) return std::nullopt;
  std::string commit = read_first_word(folder_ / "refs" / revision);
  if (commit.empty()) commit = revision;
  std::error_code error;
  if (!is_safe_relative_path(commit) || !fs::is_directory(snapshot(commit), error)) return std::nullopt;
  return snapshot(commit);
}

std::vector<std::string> HubCache::commits() const {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_ / "snapshots", error)) {
    if (entry.is_directory(error)) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> list_hub_ids(const fs::path& cache) {
  std::vector<std::string> ids;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(cache, error)) {
    std::string id = entry.path().filename().string();
    if (!id.starts_with(kFolderPrefix)) continue;
    id.erase(0, kFolderPrefix.size());
    const size_t gap = id.find("--");
    if (gap != std::string::npos) id.replace(gap, 2, "/");
    if (is_hub_id(id)) ids.push_back(std::move(id));
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

}  // namespace openwork
