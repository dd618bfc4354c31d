#include "io/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/error.h"

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

// A rename is durable once its folder is; where folders cannot be synced the data still is.
void sync_folder(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  if (path_.empty()) fail_input("an empty output path", "''", "name a file");
  std::error_code ignored;
  if (std::filesystem::is_directory(path_, ignored)) {
    fail_input("a folder where an output file is wanted", path_.string(), "name a file in it");
  }
  int flags = O_WRONLY | O_CLOEXEC;
  if (!is_written_straight(path_)) {
    part_ = name_part(path_);
    flags |= O_CREAT | O_EXCL;
  }
  buffer_.reserve(kBufferBytes);
  descriptor_ = ::open(part_.empty() ? path_.c_str() : part_.c_str(), flags, 0666);
  if (descriptor_ < 0) {
    part_.clear();  // not ours to remove
    refuse(errno, "create");
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!committed_ && !part_.empty()) ::unlink(part_.c_str());
}

void AtomicFile::reserve(uint64_t size) {
#ifdef __linux__
  if (part_.empty() || size == 0) return;
  if (::fallocate(descriptor_, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(size)) == 0) return;
  if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG) refuse(errno, "write");
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
  if (!part_.empty() && ::fsync(descriptor_) != 0) refuse(errno, "write");
  const int closed = ::close(descriptor_);
  descriptor_ = -1;
  if (closed != 0) refuse(errno, "write");
  if (!part_.empty()) {
    if (::rename(part_.c_str(), path_.c_str()) != 0) refuse(errno, "rename onto");
    sync_folder(path_);
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
    if (written < 0) refuse(errno, "write");
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void AtomicFile::refuse(int error, std::string_view doing) const {
  const std::string where = path_.string();
  switch (error) {
    case ENOSPC:
      fail("no space left on the disk", where, "free some space or write elsewhere");
    case EDQUOT:
      fail("disk quota reached", where, "free some space or write elsewhere");
    case EFBIG:
      fail("file size limit reached", where, "raise the limit (ulimit -f) or write elsewhere");
    case ENOENT:
    case ENOTDIR:
      fail_input("no such folder for the output file", where, "create the folder first");
    case EACCES:
    case EPERM:
    case EROFS:
      fail_input("the output file may not be written", where, "name a place you may write to");
    default:
      fail(fmt::format("cannot {} the output file ({})", doing, std::strerror(error)), where,
           "check the disk");
  }
}

void write_text_file(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace openwork
