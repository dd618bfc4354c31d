#include "io/new_folder.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& file, const std::string& text) {
  std::ofstream(file) << text;
}

TEST(NewFolder, AppearsWhole) {
  const TemporaryFolder scratch(fs::temp_directory_path(), "openwork-new-folder");
  const fs::path folder = scratch.path() / "made";
  NewFolder made(folder);
  write(made.part() / "a", "1");
  EXPECT_FALSE(fs::exists(folder));
  made.commit();
  EXPECT_TRUE(fs::exists(folder / "a"));
  EXPECT_FALSE(fs::exists(scratch.path() / "made.part"));
}

TEST(NewFolder, LeavesNoParentWithoutCommitUnlessSomebodyUsesIt) {
  const TemporaryFolder scratch(fs::temp_directory_path(), "openwork-new-folder");
  { const NewFolder made(scratch.path() / "a/b/made"); }
  EXPECT_FALSE(fs::exists(scratch.path() / "a"));
  EXPECT_TRUE(fs::exists(scratch.path()));
  {
    const NewFolder made(scratch.path() / "a/b/made");
    write(scratch.path() / "a/other", "1");
  }
  EXPECT_FALSE(fs::exists(scratch.path() / "a/b"));
  EXPECT_TRUE(fs::exists(scratch.path() / "a/other"));
}

TEST(NewFolder, LeavesNothingWithoutCommit) {
  const TemporaryFolder scratch(fs::temp_directory_path(), "openwork-new-folder");
  { write(NewFolder(scratch.path() / "made").part() / "a", "1"); }
  EXPECT_TRUE(fs::is_empty(scratch.path()));
}

TEST(NewFolder, TakesAnEmptyFolderAndEmptiesWhatAKilledProgramLeft) {
  const TemporaryFolder scratch(fs::temp_directory_path(), "openwork-new-folder");
  fs::create_directories(scratch.path() / "made");
  fs::create_directories(scratch.path() / "made.part/below");
  write(scratch.path() / "made.part/stale", "half");
  NewFolder made(scratch.path() / "made/");
  EXPECT_TRUE(fs::is_empty(made.part()));
  write(made.part() / "a", "1");
  made.commit();
  EXPECT_TRUE(fs::exists(scratch.path() / "made/a"));
  EXPECT_FALSE(fs::exists(scratch.path() / "made/stale"));
}

TEST(NewFolder, RefusesWhatIsNotEmptyOrBeingFilled) {
  const TemporaryFolder scratch(fs::temp_directory_path(), "openwork-new-folder");
  fs::create_directories(scratch.path() / "full");
  write(scratch.path() / "full/a", "kept");
  EXPECT_THROW(NewFolder(scratch.path() / "full"), Error);
  EXPECT_FALSE(fs::exists(scratch.path() / "full.part"));
  const NewFolder first(scratch.path() / "made");
  EXPECT_THROW(NewFolder(scratch.path() / "made"), Error);
  EXPECT_TRUE(fs::exists(first.part())) << "the first one's is not touched";
}

TEST(CopyFolder, CopiesFilesAndFoldersBelow) {
  const TemporaryFolder scratch(fs::temp_directory_path(), "openwork-new-folder");
  fs::create_directories(scratch.path() / "from/below");
  write(scratch.path() / "from/a", "1"), write(scratch.path() / "from/below/b", "22");
  copy_folder(scratch.path() / "from", scratch.path() / "to");
  EXPECT_EQ(fs::file_size(scratch.path() / "to/a"), 1u);
  EXPECT_EQ(fs::file_size(scratch.path() / "to/below/b"), 2u);
}

}  // namespace
}  // namespace openwork
