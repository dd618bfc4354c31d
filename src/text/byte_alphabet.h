// GPT-2's byte alphabet: each of the 256 bytes is written as one printable character, so that any byte string
// is text. Bytes that are printable in Latin-1 stand for themselves; the other 68 are U+0100, U+0101, ... in
// order (a space is U+0120). Vocabularies of byte-level tokenizers are written in it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace openwork {

// The character that stands for a byte, as UTF-8.
std::string_view written_byte(uint8_t byte);

// `bytes` written in the alphabet.
std::string write_bytes(std::string_view bytes);

// The bytes that `written` stands for; nothing where it holds a character that is not of the alphabet.
std::optional<std::string> read_written_bytes(std::string_view written);

}  // namespace openwork
