#include "io/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>

#include "base/error.h"
#include "io/safe_files.h"
#include "io/unfinished.h"
#include "io/write_error.h"

namespace openwork {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

// Two writers of one path, in one process or in several, never share a .part file.
std::filesystem::path name_part(const std::filesystem::path& path) {
  static std::atomic<unsigned> count{0};
  return fmt::format("{}.{}-{}.part", path.string(), ::getpid(), count++);
}

bool is_written_straight(const std::filesystem::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

// NAME.<digits>-<digits>.part, as name_part makes them for NAME.
bool is_part_of(std::string_view name, std::string_view target) {
  constexpr std::string_view kEnd = ".part";
  if (!name.starts_with(target) || !name.ends_with(kEnd) || name.size() <= target.size() + kEnd.size())
    return false;
  name.remove_prefix(target.size());
  name.remove_suffix(kEnd.size());
  const size_t dash = name.find('-');
  if (name[0] != '.' || dash == name.npos || dash < 2 || dash + 1 == name.size()) return false;
  name.remove_prefix(1);
  const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  return std::all_of(name.begin(), name.begin() + static_cast<std::ptrdiff_t>(dash - 1), is_digit) &&
         std::all_of(name.begin() + static_cast<std::ptrdiff_t>(dash), name.end(), is_digit);
}

// A part that can be locked has no writer any more. Where a file system knows no locks, nothing is removed.
void remove_stale_parts(const std::filesystem::path& path) {
  std::error_code ignored;
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const std::string target = path.filename().string();
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (!is_part_of(entry.path().filename().string(), target)) continue;
    const int part = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (part < 0) continue;
    if (::flock(part, LOCK_EX | LOCK_NB) == 0) ::unlink(entry.path().c_str());
    ::close(part);
  }
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  if (path_.empty()) fail_input("an empty output path", "''", "name a file");
  std::error_code ignored;
  if (std::filesystem::is_directory(path_, ignored)) fail_to_write("write the file", path_, EISDIR);
  buffer_.reserve(kBufferBytes);
  if (is_written_straight(path_)) {
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0) fail_to_write("write the file", path_, errno);
  } else {
    remove_stale_parts(path_);
    open_part();
  }
}

// Between its creation and its lock a part looks stale: where somebody removed it just then, another is made.
void AtomicFile::open_part() {
  for (int tries = 0; tries < 100; ++tries) {
    const std::filesystem::path part = name_part(path_);
    descriptor_ = ::open(part.c_str(), O_WRONLY | O_CLOEXEC | O_CREAT | O_EXCL, 0666);
    if (descriptor_ < 0 && errno == EEXIST) continue;  // of another machine's process, or of an older one
    if (descriptor_ < 0) fail_to_write("create the file", path_, errno);
    ::flock(descriptor_, LOCK_EX | LOCK_NB);
    struct stat status {};
    if (::fstat(descriptor_, &status) == 0 && status.st_nlink > 0) {
      part_ = part;
      note_unfinished(part_.string());
      return;
    }
    ::close(descriptor_);
    descriptor_ = -1;
  }
  fail_to_write("create the file", path_, EEXIST);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!committed_ && !part_.empty()) ::unlink(part_.c_str());
  if (!part_.empty()) forget_unfinished(part_.string());
}

void AtomicFile::reserve(uint64_t size) {
#ifdef __linux__
  if (part_.empty() || size == 0) return;
  if (::fallocate(descriptor_, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(size)) == 0) return;
  if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG) fail_to_write("write the file", path_, errno);
#else
  (void)size;
#endif
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  if (buffer_.size() + bytes.size() > kBufferBytes) flush();
  if (bytes.size() >= kBufferBytes) {
    write_through(bytes);
  } else {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }
}

void AtomicFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text.data(), text.size())));
}

void AtomicFile::commit() {
  flush();
  if (!part_.empty() && ::fsync(descriptor_) != 0) fail_to_write("write the file", path_, errno);
  const int closed = ::close(descriptor_);
  descriptor_ = -1;
  if (closed != 0) fail_to_write("write the file", path_, errno);
  if (!part_.empty()) {
    if (::rename(part_.c_str(), path_.c_str()) != 0) fail_to_write("put the file in place", path_, errno);
    sync_folder(path_.has_parent_path() ? path_.parent_path() : ".");
  }
  committed_ = true;
}

void AtomicFile::flush() {
  write_through(buffer_);
  buffer_.clear();
}

void AtomicFile::write_through(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_to_write("write the file", path_, errno);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void write_text_file(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace openwork
