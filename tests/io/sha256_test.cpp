#include "io/sha256.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "io/safe_files.h"

namespace openwork {
namespace {

TEST(Sha256, MatchesPublishedValues) {
  EXPECT_EQ(sha256_of_bytes(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_of_bytes("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256, NamesSmallFilesAsGitDoes) {
  EXPECT_EQ(git_blob_sha1_of_bytes(""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");  // git hash-object
  EXPECT_EQ(git_blob_sha1_of_bytes("hello\n"), "ce013625030ba8dba906f756967f9e9ca394464a");
}

TEST(Sha256, OfAFileLongerThanOnePieceIsThatOfItsBytes) {
  const TemporaryFolder folder(std::filesystem::temp_directory_path(), "openwork-test");
  std::string bytes;
  for (int i = 0; i < 700000; ++i) bytes += std::to_string(i % 97);
  const auto path = folder.path() / "file";
  std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_EQ(sha256_of_file(path), sha256_of_bytes(bytes));
  EXPECT_EQ(git_blob_sha1_of_file(path), git_blob_sha1_of_bytes(bytes));
}

TEST(Sha256, NamesAFileItCannotRead) {
  try {
    sha256_of_file("no/such/file");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    EXPECT_NE(std::string(error.what()).find("no/such/file"), std::string::npos);
  }
  EXPECT_THROW(sha256_of_file("."), Error);  // a folder opens, but cannot be read
}

TEST(Sha256, TellsHashesFromOtherText) {
  EXPECT_TRUE(is_hex_hash(git_blob_sha1_of_bytes("x"), kSha1Digits));
  EXPECT_FALSE(is_hex_hash(std::string(39, 'a') + "G", kSha1Digits));
  EXPECT_FALSE(is_hex_hash("../../../../etc/passwd", kSha256Digits));
  EXPECT_FALSE(is_hex_hash(std::string(63, 'a'), kSha256Digits));
}

}  // namespace
}  // namespace openwork
