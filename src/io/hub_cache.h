// The Hugging Face cache on disk, laid out as Python's tools lay it out, so that both share what was fetched:
//   CACHE/models--ORG--REPO/blobs/HASH              a file's content; HASH.incomplete while it is fetched
//   CACHE/models--ORG--REPO/snapshots/COMMIT/FILE   a link to its blob
//   CACHE/models--ORG--REPO/refs/REVISION           the commit a branch or tag stood at
//   CACHE/.locks/models--ORG--REPO/HASH.lock        held while the blob is written
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace openwork {

// ORG/REPO or REPO, with an optional @REVISION (branch, tag or commit).
struct HubName {
  std::string id;
  std::string revision = "main";

  std::string text() const { return revision == "main" ? id : id + "@" + revision; }
};

// Nothing where the text is no hub id. Accepts `hf:` in front.
std::optional<HubName> parse_hub_name(std::string_view text);

// Whether a name out of an untrusted list stays inside the folder it is joined to: relative, no empty, `.` or
// `..` parts, no backslashes or control characters.
bool is_safe_relative_path(std::string_view name);

class HubCache {
 public:
  HubCache(std::filesystem::path cache, std::string id);

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path blob(const std::string& hash) const { return folder_ / "blobs" / hash; }
  std::filesystem::path lock(const std::string& hash) const;
  std::filesystem::path snapshot(const std::string& commit) const { return folder_ / "snapshots" / commit; }

  // Makes snapshots/COMMIT/FILE a link to the blob (a copy where the file system has no links). The caller holds
  // the blob's lock.
  void link(const std::string& commit, const std::string& file, const std::string& hash) const;
  void write_ref(const std::string& revision, const std::string& commit) const;

  // The snapshot folder of a branch, tag or commit; nothing where it is not in the cache.
  std::optional<std::filesystem::path> find_snapshot(const std::string& revision) const;

  // Commits with a snapshot, sorted.
  std::vector<std::string> commits() const;

 private:
  std::filesystem::path cache_, folder_;
};

// Ids of all models in the cache, sorted; none where there is no cache.
std::vector<std::string> list_hub_ids(const std::filesystem::path& cache);

}  // namespace openwork
