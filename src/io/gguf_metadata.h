// GGUF's key-value pairs: a key (a string), a type number, and a value; arrays are an element type, a count
// and the values. Strings are a 64-bit length and UTF-8.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "io/byte_reader.h"

namespace openwork {

// The longest key or tensor name, as in ggml.
inline constexpr uint64_t kMaxGgufName = 65535;

// A string of at most `limit` bytes; `what` names it in errors.
std::string read_gguf_string(ByteReader& reader, std::string_view what, uint64_t limit = kMaxGgufName);

// `count` pairs as a JSON object. Bad input: a key twice, an unknown type, counts or lengths beyond the file.
nlohmann::json read_gguf_metadata(ByteReader& reader, uint64_t count);

}  // namespace openwork
