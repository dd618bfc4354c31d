// Output files that are whole or absent: bytes go to `PATH.<process>-<count>.part`, and commit() makes them
// durable and renames them onto PATH. Whatever was at PATH stays until that rename, and a file that was not
// committed leaves nothing behind. A .part file is locked while it is written, so that the next writer of PATH
// can tell those that a killed program left, and removes them.
//   AtomicFile out("report.json");
//   out.write(text);
//   out.commit();
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

namespace openwork {

class AtomicFile {
 public:
  // Bad input: the folder is missing or closed to us, or PATH is a folder. A device or pipe at PATH
  // (/dev/stdout, say) is written straight, as there is nothing to rename onto.
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();  // removes the unfinished file unless committed
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Asks the system for `size` bytes now, so that a full disk is found before the work and not after it.
  // Where the file system cannot, does nothing.
  void reserve(uint64_t size);

  // Appends. A full disk, a quota or a size limit is a failure (exit 1) that names PATH.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);

  // Flushes to disk and renames. Nothing may be written after.
  void commit();

 private:
  void open_part();
  void flush();
  void write_through(std::span<const std::byte> bytes);

  std::filesystem::path path_, part_;  // part_ is empty when PATH is written straight
  int descriptor_ = -1;
  bool committed_ = false;
  std::vector<std::byte> buffer_;
};

// The whole of a text file in one go.
void write_text_file(const std::filesystem::path& path, std::string_view text);

}  // namespace openwork
