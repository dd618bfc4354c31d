#include "io/safe_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>

#include "base/error.h"
#include "base/progress.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_to_write(std::string_view what, const fs::path& path, int error) {
  fail(fmt::format("cannot {}: {}", what, std::strerror(error)), path.string(),
       error == ENOSPC ? "free some space, then run the command again"
                       : "check the permissions, or choose another folder");
}

}  // namespace

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail_to_write("make the folder", folder, error.value());
  if (!fs::is_directory(folder, error)) fail_to_write("make the folder", folder, ENOTDIR);
}

void rename_file(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) fail_to_write("put the file in place", to, error.value());
}

FileLock::FileLock(const fs::path& path) {
  make_folder(path.parent_path());
  descriptor_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail_to_write("open the lock file", path, errno);
  if (flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  if (errno == EWOULDBLOCK) {
    note("waiting for another program that fetches the same file");
    while (flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  // File systems without locks (ENOTSUP, ENOLCK) are used without.
}

FileLock::~FileLock() {
  close(descriptor_);
}

TemporaryFolder::TemporaryFolder(const fs::path& parent, std::string_view prefix) {
  make_folder(parent);
  std::string name = (parent / fmt::format("{}-XXXXXX", prefix)).string();
  if (mkdtemp(name.data()) == nullptr) fail_to_write("make a temporary folder", parent, errno);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace openwork
