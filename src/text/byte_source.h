// Bytes of a data file in order, unpacked on the way: plain files, .xz (any number of streams) and .zst (any
// number of frames), told apart by their first bytes. A file of any size takes a few buffers' worth of
// memory.
#pragma once
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>

namespace openwork {

inline constexpr size_t kReadAtOnce = size_t{1} << 18;  // bytes

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Up to `capacity` bytes into `out`; 0 at the end. Fails on a damaged or cut archive, naming the file.
  virtual size_t read(char* out, size_t capacity) = 0;
};

// Fails where the file is missing, empty, a folder, or cannot be read.
std::unique_ptr<ByteSource> open_byte_source(const std::filesystem::path& path);

// Fails where a file named .xz or .zst is neither: read as text it would be called bad UTF-8.
void refuse_false_ending(const std::filesystem::path& path);

}  // namespace openwork
