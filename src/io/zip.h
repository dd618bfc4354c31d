// The directory of a zip file (zip64 too) whose members are stored, not compressed: each member is a span of
// the file's bytes. What PyTorch's .pth and .bin files are made of.
#pragma once
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace openwork {

struct ZipMember {
  std::span<const std::byte> bytes;  // empty and unusable when compressed
  bool stored = true;
};

// Members by name. Bad input: no directory, offsets outside the file, a name that stands twice, encryption,
// several disks. Compressed members are listed as such; using one is up to the caller to refuse.
std::map<std::string, ZipMember, std::less<>> parse_zip(std::span<const std::byte> file,
                                                        std::string_view origin);

}  // namespace openwork
