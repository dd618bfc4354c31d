// Folders and files changed so that nobody meets a half-written one and a killed program leaves little
// behind: a lock that dies with its holder, a temporary folder that goes with its owner. (For output files:
// atomic_file.h.)
#pragma once
#include <filesystem>
#include <string_view>

namespace openwork {

// Creates the folder and its parents; fails naming it where that cannot be done.
void make_folder(const std::filesystem::path& folder);

// Renames over what is there; fails naming the target.
void rename_file(const std::filesystem::path& from, const std::filesystem::path& to);

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
