// The four phases of hub.h: list, choose, describe, bring.
#include "io/hub.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/progress.h"
#include "io/growing_file.h"
#include "io/hub_access.h"
#include "io/safe_files.h"
#include "io/sha256.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMegabyte = 1000000;
constexpr std::string_view kIncomplete = ".incomplete";

struct RemoteFile {
  std::string name, url;
  std::string hash;  // sha256 or git's sha1; "" where the hub gives neither
  std::optional<uint64_t> bytes;
};

// `W/"abc"` and `"abc"` as abc; "" where that is no hash we can check.
std::string hash_of_etag(std::string etag) {
  if (etag.starts_with("W/")) etag.erase(0, 2);
  std::erase(etag, '"');
  std::transform(etag.begin(), etag.end(), etag.begin(), [](unsigned char c) { return std::tolower(c); });
  return is_hex_hash(etag, kSha1Digits) || is_hex_hash(etag, kSha256Digits) ? etag : "";
}

bool has_hash(const fs::path& file, const std::string& hash) {
  return hash == (hash.size() == kSha1Digits ? git_blob_sha1_of_file(file) : sha256_of_file(file));
}

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// What broken-off fetches of the file's other versions left beside `target`; nobody goes on with them.
void remove_incomplete(const fs::path& target, const fs::path& wanted) {
  std::error_code error;
  const std::string begin = target.filename().string() + ".";
  for (const auto& entry : fs::directory_iterator(target.parent_path(), error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(begin) || !name.ends_with(kIncomplete) || entry.path() == wanted) continue;
    const std::string hash = fs::path(name.substr(begin.size())).stem().string();
    if (is_hex_hash(hash, kSha1Digits) || is_hex_hash(hash, kSha256Digits)) fs::remove(entry.path(), error);
  }
}

class HubFetch {
 public:
  HubFetch(const HubName& name, const FetchOptions& options)
      : name_(name),
        options_(options),
        endpoint_(hub_endpoint()),
        client_(http_options(options)),
        cache_(options.places.hub, name.id) {}

  FetchedModel run();

 private:
  static HttpOptions http_options(const FetchOptions& options) {
    HttpOptions http = options.http;
    http.bearer_token = hub_token();
    http.unreachable_advice =
        "check the network, the proxy settings and HF_ENDPOINT, then run the same command again: it goes on "
        "where "
        "it stopped";
    return http;
  }

  void list();                                   // phase 1
  RemoteFile describe(const std::string& file);  // phase 3
  void bring(const std::string& file);           // phases 3 and 4
  std::string bring_to(const RemoteFile& remote, const fs::path& target, const fs::path& part);
  void download(const RemoteFile& remote, const fs::path& part);
  void check_space(const RemoteFile& remote, const fs::path& part) const;
  fs::path folder() const { return options_.to ? *options_.to : cache_.snapshot(commit_); }

  const HubName& name_;
  const FetchOptions& options_;
  std::string endpoint_;
  HttpClient client_;
  HubCache cache_;
  std::string commit_;
  std::vector<std::string> names_;               // all files of the repository
  std::map<std::string, RemoteFile> described_;  // what the list itself said of hashes
  std::vector<FetchedFile> files_;
};

FetchedModel HubFetch::run() {
  list();
  const FilePlan plan = plan_files(names_, options_.file, name_.text());
  make_folder(folder());
  std::optional<FolderLock> lock;  // the cache has a lock for each file
  if (options_.to) lock.emplace(*options_.to, FolderLock::IfHeld::kWait);
  for (const std::string& file : plan.small) bring(file);
  std::vector<std::string> weights = plan.weights;
  if (!plan.index.empty()) {
    weights = read_shard_names(read_text(folder() / plan.index), names_, name_.text() + "/" + plan.index);
  }
  weights.insert(weights.end(), plan.adapter.begin(), plan.adapter.end());
  for (const std::string& file : weights) bring(file);
  if (!options_.to) cache_.write_ref(name_.revision, commit_);  // last: a name found is a model that is whole
  return {options_.to ? options_.to->string() : name_.text(), folder(), commit_, std::move(files_)};
}

void HubFetch::list() {
  const std::string url =
      fmt::format("{}/api/models/{}/revision/{}", endpoint_, name_.id, encode_url(name_.revision, false));
  const HttpResponse response = client_.get(url);
  if (response.status != 200) explain_refusal(response, name_.text(), name_.revision);
  const auto answer = nlohmann::json::parse(response.body, nullptr, false);
  const bool is_list = answer.is_object() && answer.contains("sha") && answer["sha"].is_string() &&
                       answer.contains("siblings") && answer["siblings"].is_array();
  if (!is_list) fail("the answer is not a hub's list of files", url, "check HF_ENDPOINT");
  commit_ = answer["sha"];
  const bool is_name =
      std::all_of(commit_.begin(), commit_.end(), [](unsigned char c) { return std::isalnum(c); });
  if (commit_.empty() || commit_.size() > kSha256Digits || !is_name) {
    fail(fmt::format("'{}' is no commit", printable(commit_)), url, "check HF_ENDPOINT");
  }
  for (const auto& sibling : answer["siblings"]) {
    if (!sibling.is_object() || !sibling.contains("rfilename") || !sibling["rfilename"].is_string()) {
      fail("the answer is not a hub's list of files", url, "check HF_ENDPOINT");
    }
    const std::string file = sibling["rfilename"];
    if (!is_safe_relative_path(file)) {
      fail(fmt::format("the file name '{}' points outside its folder", printable(file)), url,
           "do not use this repository");
    }
    names_.push_back(file);
    if (sibling.contains("lfs") && sibling["lfs"].is_object()) {
      described_[file].hash = hash_of_etag(sibling["lfs"].value("sha256", ""));
    }
  }
}

RemoteFile HubFetch::describe(const std::string& file) {
  RemoteFile remote = described_[file];
  remote.name = file;
  remote.url = fmt::format("{}/{}/resolve/{}/{}", endpoint_, name_.id, commit_, encode_url(file, true));
  const HttpResponse response = client_.head(remote.url);
  const bool is_redirect = response.status >= 300 && response.status < 400;
  if (response.status != 200 && !is_redirect)
    explain_refusal(response, name_.text() + "/" + file, name_.revision);
  if (remote.hash.empty()) remote.hash = hash_of_etag(response.header("x-linked-etag"));
  if (remote.hash.empty()) remote.hash = hash_of_etag(response.header("etag"));
  // Of a file that lies elsewhere git knows only a pointer, and its hash is the pointer's.
  if (is_redirect && remote.hash.size() == kSha1Digits) remote.hash.clear();
  remote.bytes = parse_number(response.header("x-linked-size"));
  if (!remote.bytes && !is_redirect) remote.bytes = parse_number(response.header("content-length"));
  return remote;
}

void HubFetch::bring(const std::string& file) {
  const RemoteFile remote = describe(file);
  if (options_.to) {
    const fs::path target = *options_.to / file;
    make_folder(target.parent_path());
    const fs::path part = fmt::format("{}.{}{}", target.string(), remote.hash, kIncomplete);
    remove_incomplete(target, part);
    bring_to(remote, target, part);
    return;
  }
  // Without a hash the blob gets its own sha256 for a name, and nothing half-fetched can be trusted to fit.
  const std::string key = remote.hash.empty() ? sha256_of_bytes(remote.url) : remote.hash;
  make_folder(cache_.folder() / "blobs");
  const FileLock lock(cache_.lock(key));
  const fs::path part = cache_.blob(key + ".incomplete");
  const fs::path blob = cache_.blob(key);
  std::string hash = bring_to(remote, blob, part);
  if (hash != key) rename_file(blob, cache_.blob(hash));
  cache_.link(commit_, file, hash);
}

// The file at `target`, checked; says its hash.
std::string HubFetch::bring_to(const RemoteFile& remote, const fs::path& target, const fs::path& part) {
  std::error_code error;
  FetchedFile fetched{remote.name, 0, remote.hash, false};
  if (remote.hash.empty() || !fs::is_regular_file(target, error) || !has_hash(target, remote.hash)) {
    download(remote, part);
    if (remote.hash.empty()) {
      fetched.hash = sha256_of_file(part);
      note(fmt::format("{}: the hub gives no hash to check it against", remote.name));
    } else if (!has_hash(part, remote.hash)) {
      fs::remove(part, error);
      fail(fmt::format("the hash of '{}' is wrong (wanted {}); the file was deleted", printable(remote.name),
                       remote.hash),
           name_.text(), "run the command again; if it stays wrong, the hub or the connection is at fault");
    }
    sync_file(part);
    rename_file(part, target);
    fetched.downloaded = true;
  }
  fetched.bytes = fs::file_size(target, error);
  files_.push_back(fetched);
  return fetched.hash;
}

void HubFetch::download(const RemoteFile& remote, const fs::path& part) {
  std::error_code error;
  const uint64_t there = fs::exists(part, error) ? fs::file_size(part, error) : 0;
  if (remote.hash.empty() || (remote.bytes && there > *remote.bytes)) fs::remove(part, error);
  check_space(remote, part);
  const uint64_t megabytes = remote.bytes.value_or(0) / kMegabyte;
  note(fmt::format("fetching {}{}", remote.name, megabytes > 0 ? fmt::format(" ({} MB)", megabytes) : ""));
  Progress progress(remote.name, megabytes, " MB");
  const HttpResponse response = client_.download(remote.url, part, &progress, kMegabyte);
  if (response.status != 200 && response.status != 206) {
    if (fs::file_size(part, error) == 0) fs::remove(part, error);
    explain_refusal(response, name_.text() + "/" + remote.name, name_.revision);
  }
}

void HubFetch::check_space(const RemoteFile& remote, const fs::path& part) const {
  std::error_code error;
  const fs::space_info space = fs::space(part.parent_path(), error);
  const uint64_t there = fs::exists(part, error) ? fs::file_size(part, error) : 0;
  if (error || !remote.bytes || *remote.bytes <= there || *remote.bytes - there <= space.available) return;
  fail(fmt::format("'{}' needs {} MB and {} MB are free", printable(remote.name), *remote.bytes / kMegabyte,
                   space.available / kMegabyte),
       part.parent_path().string(), "free some space, or choose another folder by --to or HF_HOME");
}

}  // namespace

FetchedModel fetch_from_hub(const HubName& name, const FetchOptions& options) {
  refuse_when_offline();
  if (!options.to && options.places.hub.empty()) {
    fail_input("no place for the Hugging Face cache", "HOME", "set HF_HOME, or choose a folder by --to");
  }
  return HubFetch(name, options).run();
}

}  // namespace openwork
