// A file as a span of bytes: mapped private, so nothing is read until it is touched and nothing is ever written
// back; a tensor that lies in it may be written to, and what is written is this process's alone. The map lasts as
// long as the object. Should another program cut the file short meanwhile, touching what is gone ends this one,
// with the line of explain_lost_pages (replace files by renaming, as atomic_file.h does).
#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace openwork {

class MappedFile {
 public:
  // Fails (bad input) when the path is missing, not a regular file, or may not be read. An empty file maps
  // to an empty span.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }

  // Lets the system drop the whole pages inside `part` (which must lie in bytes()); they are read from the
  // file again on the next touch. Pages shared with a neighbour stay. What was written to them is lost.
  void release(std::span<const std::byte> part) const;

 private:
  std::span<const std::byte> bytes_;
};

// From now on a mapped file that is cut short or whose disk fails under us ends the program with one line that
// names it and exit code 1, in place of SIGBUS. The program's own business: a library leaves signals alone.
void explain_lost_pages();

}  // namespace openwork
