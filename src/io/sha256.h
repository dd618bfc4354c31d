// Hashes of files and bytes, as lower-case hexadecimal text (OpenSSL does the sums, with the processor's own
// SHA instructions where it has them). The hub names large files by sha256 and small ones as git does:
// sha1 of "blob SIZE\0" and the content.
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace openwork {

std::string sha256_of_bytes(std::string_view bytes);
std::string git_blob_sha1_of_bytes(std::string_view bytes);

// Of a whole file, read in pieces; fails naming the file where it cannot be read.
std::string sha256_of_file(const std::filesystem::path& file);
std::string git_blob_sha1_of_file(const std::filesystem::path& file);

// Whether `text` is a hash as written here: `digits` characters, each 0-9 or a-f.
bool is_hex_hash(std::string_view text, size_t digits);
inline constexpr size_t kSha1Digits = 40;
inline constexpr size_t kSha256Digits = 64;

}  // namespace openwork
