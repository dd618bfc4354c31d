// Tokens as they are written in tables, sentences and on axes: every byte visible, whatever it is. A space is ·,
// a newline ↵, a tab ⇥; other characters that would not show (controls, zero-width ones, other spaces, what turns
// the writing direction) are \u200B; bytes that make no character by themselves are \xE4; a combining mark stands on ◌.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace openwork {

// `bytes` is one token's piece. At most `limit` characters, the last one then …; an empty piece is ∅.
std::string mark_token(std::string_view bytes, size_t limit = 14);

// In quotes and whole, for tables: '·the'.
std::string quote_token(std::string_view bytes);

}  // namespace openwork
