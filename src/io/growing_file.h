// The file a download grows in. Wrong bytes never join right ones: an answer with part of the content must
// begin where the file ends, and one with all of it begins anew.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace openwork {

// What `Content-Range: bytes START-END/TOTAL` (status 206) or `bytes */TOTAL` (416) says.
struct ContentRange {
  std::optional<uint64_t> start, total;
};

ContentRange parse_content_range(std::string_view text);

class GrowingFile {
 public:
  // Opens or creates a plain file; what it holds is kept. Fails naming the path.
  explicit GrowingFile(const std::filesystem::path& path);
  ~GrowingFile();
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;

  uint64_t size() const { return size_; }
  void empty();

  // Called before the first byte of an answer's body; false: these bytes do not follow on ours.
  bool begin(long status, std::string_view content_range);

  // On a full disk the file is removed, so that its space is free again, and this fails.
  void append(std::string_view bytes);

 private:
  [[noreturn]] void report(int error) const;

  std::filesystem::path path_;
  int descriptor_;
  uint64_t size_ = 0;
};

// A decimal number and nothing else.
std::optional<uint64_t> parse_number(std::string_view text);

}  // namespace openwork
