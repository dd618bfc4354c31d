// Sets of characters as the tokenizers package sees them, written to stand between [ and ] in PCRE2's syntax.
// PCRE2 10.40 to 10.42 know Unicode 14; the package's regular expressions know Unicode 16, so what came
// between is added by hand. A later PCRE2 has them already, and they do no harm.
#pragma once
#include <string>
#include <string_view>

namespace openwork {

std::string space_members();                              // White_Space; PCRE2's own \s adds U+180E
std::string non_space_members();                          // every other character
std::string property_members(std::string_view property);  // \p{property} and what came later
std::string numeric_members();                            // Rust's char::is_numeric (Unicode 17)
std::string word_members();                               // Oniguruma's \w inside a set
std::string lone_word_members();  // and outside, where it takes Latin-1's raised numbers
std::string rust_word_members();  // \w of Rust's regular expressions

}  // namespace openwork
