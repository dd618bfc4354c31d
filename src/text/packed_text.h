// Text that lies in a file packed, and is held whole: descriptions of features, graphs (.json.zst), prompts, tasks. What a small file may unpack
// to is limited, so that none takes all memory.
#pragma once
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace openwork {

// By zstd; level 19 takes a second for every megabyte or two, 9 a twentieth of it.
std::string pack_text(std::string_view text, int level);

// What open_byte_source reads. Fails in one line on a file that unpacks to more than 32 times its size and 8 MB
// (OPENWORK_UNPACK_LIMIT bytes where that is set).
std::string unpack_text(const std::filesystem::path& file);

// The same as JSON (io/json.h) with at most a list or object for every `bytes_of_list` bytes, and a thousand: one takes tens of
// bytes of memory for two of text.
nlohmann::json read_packed_json(const std::filesystem::path& file, size_t bytes_of_list);

}  // namespace openwork
