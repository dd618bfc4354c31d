// What the tests of src/io share: a folder that goes when the test ends, bytes put together by hand, and
// checks of an error's kind and words.
#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace openwork {

class TestFolder {
 public:
  TestFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "openwork-test-XXXXXX").string();
    if (!::mkdtemp(pattern.data())) throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

  std::filesystem::path write(std::string_view name, std::string_view content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
    return path_ / name;
  }

  size_t file_count() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  std::filesystem::path path_;
};

inline std::string read_whole(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::span<const std::byte> as_span(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// The bytes of a number, little-endian.
template <typename Number>
std::string pack(Number value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

// Expects `action` to fail as bad input with one line of three parts that holds `words`.
inline void expect_failure(Error::Kind kind, std::string_view words, const std::function<void()>& action) {
  try {
    action();
    ADD_FAILURE() << "no error, where one about '" << words << "' was due";
  } catch (const Error& error) {
    const std::string line = error.what();
    EXPECT_EQ(error.kind(), kind) << line;
    EXPECT_THAT(line, testing::HasSubstr(std::string(words)));
    EXPECT_THAT(line, testing::Not(testing::HasSubstr("\n")));
    EXPECT_THAT(line, testing::MatchesRegex(".+; .+; .+"));
  }
}

inline void expect_bad_input(std::string_view words, const std::function<void()>& action) {
  expect_failure(Error::Kind::kInput, words, action);
}

}  // namespace openwork
