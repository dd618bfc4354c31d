#include "io/safe_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/progress.h"
#include "io/unfinished.h"
#include "io/write_error.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

fs::path parent_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

void sync(const fs::path& path, int flags, std::string_view doing) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags);
  if (descriptor < 0) return;  // may be written but not read
  const int error = ::fsync(descriptor) == 0 ? 0 : errno;
  ::close(descriptor);
  if (error != 0 && error != EINVAL && error != ENOTSUP && error != EROFS) fail_to_write(doing, path, error);
}

// Takes the lock, at once or after a wait; false: another holds it and `wait` is off. File systems without locks
// (ENOTSUP, ENOLCK) are used without.
bool take_lock(int descriptor, bool wait, std::string_view waiting_for) {
  if (flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return true;
  if (!wait) return false;
  note(fmt::format("waiting for {}", waiting_for));
  while (flock(descriptor, LOCK_EX) != 0 && errno == EINTR) {
  }
  return true;
}

// Whether what was opened is still what has the name: the holder before us may have removed its folder.
bool is_still_at(int descriptor, const fs::path& folder) {
  struct stat opened {
  }, named{};
  return ::fstat(descriptor, &opened) == 0 && ::stat(folder.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

}  // namespace

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

std::vector<fs::path> make_folder(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> made;
  for (fs::path at = folder; !at.empty() && !fs::exists(at, error); at = at.parent_path()) {
    made.push_back(at);
    if (at == at.parent_path()) break;
  }
  fs::create_directories(folder, error);
  if (error) fail_to_write("make the folder", folder, error.value());
  if (!fs::is_directory(folder, error)) fail_to_write("make the folder", folder, ENOTDIR);
  for (const fs::path& each : made) sync_folder(parent_of(each));
  return made;
}

void rename_file(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) fail_to_write("put the file in place", to, error.value());
  sync_folder(parent_of(to));
}

void sync_folder(const fs::path& folder) {
  sync(folder, O_DIRECTORY, "make the folder's changes durable");
}

void sync_file(const fs::path& file) {
  sync(file, 0, "write the file");
}

FileLock::FileLock(const fs::path& path) {
  make_folder(parent_of(path));
  descriptor_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail_to_write("open the lock file", path, errno);
  take_lock(descriptor_, true, "another program that fetches the same file");
}

FileLock::~FileLock() {
  close(descriptor_);
}

FolderLock::FolderLock(const fs::path& folder, IfHeld if_held) {
  for (;;) {
    made_ = make_folder(folder);
    descriptor_ = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor_ < 0 && errno == ENOENT) continue;
    if (descriptor_ < 0) fail_to_write("open the folder", folder, errno);
    const bool taken =
        take_lock(descriptor_, if_held == IfHeld::kWait, "another program that writes into the same folder");
    if (taken && is_still_at(descriptor_, folder)) break;
    close(descriptor_);
    if (taken) continue;
    fail_input("another openwork is writing into this folder", folder.string(),
               "wait until it has ended, or choose another folder");
  }
  for (const fs::path& made : made_) note_unfinished(made.string());
}

FolderLock::~FolderLock() {
  std::error_code ignored;
  for (const fs::path& folder : made_) {
    fs::remove(folder, ignored);  // fails where there is something in it
    forget_unfinished(folder.string());
  }
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
