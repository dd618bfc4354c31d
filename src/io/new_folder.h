// A folder that appears whole: it is filled as `FOLDER.part` beside its place, and commit() renames it there. A killed
// program leaves at most the .part folder, which the next NewFolder of the same place empties; an error leaves nothing,
// not even parents that had to be made.
//   NewFolder folder("pruned");
//   ... write files into folder.part() ...
//   folder.commit();
#pragma once
#include <filesystem>
#include <memory>

#include "io/safe_files.h"

namespace openwork {

class NewFolder {
 public:
  // Bad input where there is something at `folder` already, but for an empty folder, or another process fills it.
  explicit NewFolder(const std::filesystem::path& folder);
  ~NewFolder();  // removes what was not committed
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const std::filesystem::path& part() const { return part_; }

  // Files in it are durable by then (atomic_file.h); nothing may be written into part() after.
  void commit();

 private:
  std::filesystem::path folder_, part_;
  std::unique_ptr<FolderLock> lock_;
  bool committed_ = false;
};

// Copies a folder's files, each written as output files are (atomic_file.h): a full disk is said to be one.
void copy_folder(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace openwork
