// UTF-8, strictly as the standard has it: no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace openwork {

// Bytes of the well-formed character that starts at text[at]; 0 where none does.
size_t utf8_length_at(std::string_view text, size_t at);

// Position of the first byte that is not part of well-formed UTF-8; npos when all of it is.
size_t find_invalid_utf8(std::string_view text);

// The character at text[at], which must start a well-formed one; `at` moves past it.
char32_t next_code_point(std::string_view text, size_t& at);

void append_utf8(std::string& out, char32_t code_point);

}  // namespace openwork
