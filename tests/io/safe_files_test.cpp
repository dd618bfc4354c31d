// One writer per folder, and folders that are there or refused by one rule.
#include "io/safe_files.h"

#include <sys/wait.h>

#include <chrono>
#include <thread>

#include "base/progress.h"
#include "io/test_files.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;
using IfHeld = FolderLock::IfHeld;

TEST(FolderLock, ASecondWriterIsRefusedUntilTheFirstHasEnded) {
  const TestFolder folder;
  {
    const FolderLock first(folder / "new/out", IfHeld::kRefuse);
    expect_bad_input("another openwork is writing into this folder",
                     [&] { FolderLock(folder / "new/out", IfHeld::kRefuse); });
    EXPECT_TRUE(fs::is_empty(folder / "new/out"));  // no lock file to forget
  }
  FolderLock(folder / "new/out", IfHeld::kRefuse);
}

TEST(FolderLock, AFolderMadeForNothingGoesAgain) {
  const TestFolder folder;
  fs::create_directories(folder / "there");
  { const FolderLock lock(folder / "there/new/out", IfHeld::kRefuse); }
  EXPECT_TRUE(fs::is_empty(folder / "there"));
  { const FolderLock lock(folder / "there", IfHeld::kRefuse); }
  EXPECT_TRUE(fs::exists(folder / "there")) << "it was there before";
  {
    const FolderLock lock(folder / "there/new/out", IfHeld::kRefuse);
    folder.write("there/new/kept", "by somebody");
  }
  EXPECT_TRUE(fs::exists(folder / "there/new/kept"));
  EXPECT_FALSE(fs::exists(folder / "there/new/out"));
}

TEST(FolderLock, DiesWithItsHolder) {
  const TestFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    const FolderLock held(folder / "out", IfHeld::kRefuse);
    kill(getpid(), SIGKILL);
  }
  waitpid(child, nullptr, 0);
  FolderLock(folder / "out", IfHeld::kRefuse);
}

TEST(FolderLock, WaitsWhereAsked) {
  const TestFolder folder;
  set_quiet(true);
  auto first = std::make_unique<FolderLock>(folder / "out", IfHeld::kRefuse);
  std::atomic<bool> taken = false;
  std::thread second([&] {
    const FolderLock lock(folder / "out", IfHeld::kWait);
    taken = fs::exists(folder / "out");  // though the first one took it away
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(taken);
  first.reset();
  second.join();
  EXPECT_TRUE(taken);
}

TEST(MakeFolder, APathThatCannotBeIsBadInput) {
  const TestFolder folder;
  folder.write("file", "in the way");
  expect_bad_input("cannot make the folder", [&] { make_folder(folder / "file/below"); });
  expect_bad_input("cannot make the folder", [&] { make_folder(folder / "file"); });
  expect_bad_input("cannot make the folder", [&] { make_folder(folder / std::string(300, 'x')); });
}

TEST(SyncFolder, AFileSystemThatCannotSyncIsNoError) {
  sync_folder("/proc/self");
  sync_folder("/none");
}

}  // namespace
}  // namespace openwork
