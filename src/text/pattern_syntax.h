// From the regular expressions of tokenizer.json (Oniguruma, Ruby syntax, Unicode 16) to PCRE2's, so that
// both match the same text. What differs and is translated:
//   \s \S      PCRE2 also takes U+180E for a space: written out
//   \w \d      Oniguruma's sets: written out
//   \p{L} ...  letters, numbers, marks, ... that came with Unicode 15 and 16 are added
//   \b \h \v   word boundary of that \w; a hexadecimal digit; the vertical tab
//   {n,m}+ {n}?  in Ruby a second repetition, not possessive or lazy;  {,m} is {0,m};  (?m) is PCRE2's (?s)
//   [a[bc]]    a set inside a set is its union
// What has no equal in PCRE2 ([a&&b], [a[^b]], (?~x), \R, \X, ...) is refused.
#pragma once
#include <string>
#include <string_view>

namespace openwork {

// Fails, naming the construct and `where`, on what is not supported.
std::string translate_pattern(std::string_view expression, const std::string& where);

}  // namespace openwork
