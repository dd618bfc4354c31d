// Folders and files changed so that nobody meets a half-written one and a killed program leaves little
// behind: locks that die with their holder, a temporary folder that goes with its owner. (For output files:
// atomic_file.h.)
#pragma once
#include <filesystem>
#include <string_view>
#include <vector>

namespace openwork {

// Whether a plain file is there; false where that cannot be seen.
bool is_file(const std::filesystem::path& path);

// Creates the folder and its parents and makes them durable; fails naming it where that cannot be done. Returns those
// that were not there, the innermost first.
std::vector<std::filesystem::path> make_folder(const std::filesystem::path& folder);

// Renames over what is there and makes that durable; fails naming the target.
void rename_file(const std::filesystem::path& from, const std::filesystem::path& to);

// Makes what was created, renamed or removed in the folder durable. A disk that reports an error is a failure;
// a file system that cannot sync folders is used without.
void sync_folder(const std::filesystem::path& folder);
void sync_file(const std::filesystem::path& file);  // its content

// Holds a folder (made where absent) for one writer. The lock is on the folder itself, so that no file is left,
// and goes with the process however it ends. A folder that had to be made and is still empty at the end goes too, with
// its parents: a command that is refused or interrupted leaves none. Where it is held by another process: kRefuse
// fails, kWait says so in a note and waits.
class FolderLock {
 public:
  enum class IfHeld { kRefuse, kWait };
  FolderLock(const std::filesystem::path& folder, IfHeld if_held);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  std::vector<std::filesystem::path> made_;  // the innermost first
  int descriptor_;
};

// Holds `path` (created, with its folder, where absent) by flock, as Python's filelock does, so that programs
// of both kinds wait for each other. Says so in a note when it has to wait.
class FileLock {
 public:
  explicit FileLock(const std::filesystem::path& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int descriptor_;
};

// A new folder `PARENT/PREFIX-XXXXXX`, removed with all it holds at the end.
class TemporaryFolder {
 public:
  TemporaryFolder(const std::filesystem::path& parent, std::string_view prefix);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace openwork
