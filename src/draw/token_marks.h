// Tokens as they are written on axes: every byte visible, whatever it is. A space is ·, a newline ↵, a tab ⇥;
// other characters that would not show (controls, zero-width ones, other spaces, what turns the writing
// direction) are \u200B; bytes that make no character by themselves are \xE4; a combining mark stands on ◌.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace openwork::draw {

// `bytes` is one token's piece. At most `limit` characters, the last one then …; an empty piece is ∅.
std::string mark_token(std::string_view bytes, size_t limit = 14);

}  // namespace openwork::draw
