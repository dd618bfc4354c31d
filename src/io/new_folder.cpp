#include "io/new_folder.h"

#include "base/error.h"
#include "io/atomic_file.h"
#include "io/mapped_file.h"
#include "io/write_error.h"

namespace openwork {

namespace fs = std::filesystem;

NewFolder::NewFolder(const fs::path& folder) : folder_(fs::absolute(folder).lexically_normal()) {
  if (!folder_.has_filename()) folder_ = folder_.parent_path();  // was written with a slash at its end
  std::error_code error;
  if (fs::exists(folder_, error) && !(fs::is_directory(folder_, error) && fs::is_empty(folder_, error)))
    fail_input("the folder is not empty", folder.string(), "choose another --out");
  part_ = folder_.string() + ".part";
  lock_ = std::make_unique<FolderLock>(part_, FolderLock::IfHeld::kRefuse);
  for (const fs::path& stale : fs::directory_iterator(part_)) {
    fs::remove_all(stale, error);
    if (error) fail_to_write("empty the folder", part_, error.value());
  }
}

NewFolder::~NewFolder() {
  std::error_code ignored;
  if (committed_) return;
  fs::remove_all(part_, ignored);  // parents that were made for it go with the lock
}

void NewFolder::commit() {
  sync_folder(part_);
  rename_file(part_, folder_);  // onto an empty folder, or where there was none
  committed_ = true;
}

void copy_folder(const fs::path& from, const fs::path& to) {
  make_folder(to);
  for (const fs::directory_entry& entry : fs::directory_iterator(from)) {
    const fs::path target = to / entry.path().filename();
    if (entry.is_directory()) {
      copy_folder(entry.path(), target);
    } else if (entry.is_regular_file()) {
      write_text_file(target, MappedFile(entry.path()).text());
    }
  }
}

}  // namespace openwork
