#include "io/mapped_file.h"

#include <sys/stat.h>

#include <csignal>

#include "io/atomic_file.h"
#include "io/test_files.h"

namespace openwork {
namespace {

TEST(MappedFile, ShowsAFilesBytes) {
  const TestFolder folder;
  const MappedFile file(folder.write("a", "some bytes"));
  EXPECT_EQ(file.text(), "some bytes");
  EXPECT_EQ(file.bytes().size(), 10u);
}

TEST(MappedFile, MapsAnEmptyFileToNoBytes) {
  const TestFolder folder;
  EXPECT_TRUE(MappedFile(folder.write("a", "")).bytes().empty());
}

TEST(MappedFile, KeepsBytesReadableAfterRelease) {
  const TestFolder folder;
  const std::string content(100000, 'x');
  const MappedFile file(folder.write("a", content));
  file.release(file.bytes());
  file.release(file.bytes().subspan(5, 1));
  file.release(file.bytes().subspan(100000));
  EXPECT_EQ(file.text(), content);
}

TEST(MappedFile, KeepsWhatIsWrittenToItselfEvenOfAFileThatMayNotBeWritten) {
  const TestFolder folder;
  const auto path = folder.write("a", "some bytes");
  std::filesystem::permissions(path, std::filesystem::perms::owner_read);
  const MappedFile file(path), other(path);
  *const_cast<std::byte*>(file.bytes().data()) = std::byte{'c'};
  EXPECT_EQ(file.text(), "come bytes");
  EXPECT_EQ(other.text(), "some bytes");
  EXPECT_EQ(read_whole(path), "some bytes");
}

TEST(MappedFile, RefusesWhatIsNoReadableFile) {
  const TestFolder folder;
  expect_bad_input("no such file", [&] { MappedFile(folder / "absent"); });
  expect_bad_input("no such file", [&] { MappedFile(folder.write("a", "x") / "below"); });
  expect_bad_input("a folder where a file is wanted", [&] { MappedFile{folder.path()}; });
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  expect_bad_input("not a regular file", [&] { MappedFile(folder / "pipe"); });
}

// In a process of its own: the superuser may read everything, so there it becomes nobody first.
TEST(MappedFileDeathTest, RefusesAFileItMayNotRead) {
  const TestFolder folder;
  const auto path = folder.write("closed", "x");
  std::filesystem::permissions(path, std::filesystem::perms::none);
  const auto open_as_nobody = [&] {
    if (::geteuid() == 0 && ::setuid(65534) != 0) std::exit(3);
    try {
      const MappedFile file(path);
    } catch (const Error& error) {
      std::exit(std::string_view(error.what()).starts_with("permission denied; ") ? error.exit_code() : 1);
    }
    std::exit(0);
  };
  EXPECT_EXIT(open_as_nobody(), testing::ExitedWithCode(2), "");
}

TEST(MappedFileDeathTest, OneThatIsCutShortMeanwhileIsOneLine) {
  const TestFolder folder;
  const auto path = folder.write("shrinking", std::string(3 * 65536, 'x'));
  const auto touch_what_is_gone = [&] {
    explain_lost_pages();
    const MappedFile file(path);
    AtomicFile out(folder / "out");
    std::filesystem::resize_file(path, 65536);
    std::exit(file.bytes()[2 * 65536] == std::byte{'x'} ? 5 : 6);
  };
  EXPECT_EXIT(touch_what_is_gone(), testing::ExitedWithCode(1),
              "^openwork: error: the file was cut short, .*; .*shrinking; .*\n$");
  EXPECT_EQ(folder.file_count(), 1u);  // no unfinished file is left
}

TEST(MappedFileDeathTest, AnotherBusErrorIsNotExplained) {
  const TestFolder folder;
  const auto raise_it = [&] {
    explain_lost_pages();
    std::raise(SIGBUS);
    std::raise(SIGBUS);
  };
  EXPECT_EXIT(raise_it(), testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace openwork
