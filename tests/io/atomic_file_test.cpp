#include "io/atomic_file.h"

#include <signal.h>
#include <sys/resource.h>

#include "io/test_files.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

// Files may grow to `bytes` while this lives; beyond it a write fails as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : old_handler_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit lower{bytes, old_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &lower);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    ::signal(SIGXFSZ, old_handler_);
  }

 private:
  sighandler_t old_handler_;
  rlimit old_{};
};

TEST(AtomicFile, AppearsWholeOnCommit) {
  const TestFolder folder;
  AtomicFile file(folder / "out");
  file.write("one ");
  file.write(as_span("two"));
  EXPECT_FALSE(fs::exists(folder / "out"));
  file.commit();
  EXPECT_EQ(read_whole(folder / "out"), "one two");
  EXPECT_EQ(folder.file_count(), 1u);
}

TEST(AtomicFile, KeepsTheOldFileUntilCommit) {
  const TestFolder folder;
  folder.write("out", "old");
  {
    AtomicFile file(folder / "out");
    file.write("new");
    EXPECT_EQ(read_whole(folder / "out"), "old");
  }
  EXPECT_EQ(read_whole(folder / "out"), "old");
  EXPECT_EQ(folder.file_count(), 1u);
  write_text_file(folder / "out", "new");
  EXPECT_EQ(read_whole(folder / "out"), "new");
}

TEST(AtomicFile, RemovesWhatAKilledWriterLeft) {
  const TestFolder folder;
  folder.write("out.123-4.part", "half of it");
  folder.write("out.mine.part", "not ours");
  folder.write("other.123-4.part", "of another file");
  AtomicFile first(folder / "out");
  AtomicFile second(folder / "out");  // at the same time: each has its own part
  EXPECT_FALSE(fs::exists(folder / "out.123-4.part"));
  EXPECT_TRUE(fs::exists(folder / "out.mine.part"));
  EXPECT_TRUE(fs::exists(folder / "other.123-4.part"));
  EXPECT_EQ(folder.file_count(), 4u);
  first.write("first"), first.commit();
  second.write("second"), second.commit();
  EXPECT_EQ(read_whole(folder / "out"), "second");
}

TEST(AtomicFile, WritesPiecesLargerThanItsBuffer) {
  const TestFolder folder;
  std::string whole;
  AtomicFile file(folder / "out");
  for (const size_t size : {size_t{3}, size_t{3} << 20, size_t{700000}, size_t{700000}, size_t{1} << 20}) {
    const std::string piece(size, static_cast<char>('a' + size % 7));
    file.write(piece);
    whole += piece;
  }
  file.commit();
  EXPECT_EQ(read_whole(folder / "out"), whole);
}

TEST(AtomicFile, LeavesNothingWhenAWriteFails) {
  const TestFolder folder;
  const FileSizeLimit limit(4096);
  expect_failure(Error::Kind::kFailure, "file size limit reached",
                 [&] { write_text_file(folder / "out", std::string(10000, 'x')); });
  EXPECT_EQ(folder.file_count(), 0u);
}

TEST(AtomicFile, FindsOutBeforehandThatThereIsNoRoom) {
  const TestFolder folder;
  const FileSizeLimit limit(4096);
  expect_failure(Error::Kind::kFailure, "file size limit reached", [&] {
    AtomicFile file(folder / "out");
    file.reserve(10000);
    // Where the file system cannot reserve, the write finds out.
    file.write(std::string(10000, 'x'));
    file.commit();
  });
  EXPECT_EQ(folder.file_count(), 0u);
}

TEST(AtomicFile, SaysThatTheDiskIsFull) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  expect_failure(Error::Kind::kFailure, "no space left on the disk",
                 [] { write_text_file("/dev/full", "x"); });
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST(AtomicFile, WritesDevicesStraight) {
  write_text_file("/dev/null", "gone");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST(AtomicFile, RefusesPlacesWhereNoFileCanBe) {
  const TestFolder folder;
  expect_bad_input("no such folder", [&] { AtomicFile(folder / "absent/out"); });
  expect_bad_input("a folder where an output file is wanted", [&] { AtomicFile{folder.path()}; });
  expect_bad_input("an empty output path", [&] { AtomicFile(""); });
}

}  // namespace
}  // namespace openwork
