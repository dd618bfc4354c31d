#include "base/utf8.h"

#include <gtest/gtest.h>

namespace openwork {
namespace {

TEST(Utf8, EncodesWhatItDecodes) {
  for (const char32_t code : {0x24u, 0xa2u, 0x20acu, 0x10348u, 0x10ffffu, 0xd7ffu, 0xe000u}) {
    std::string text;
    append_utf8(text, code);
    size_t at = 0;
    EXPECT_EQ(next_code_point(text, at), code);
    EXPECT_EQ(at, text.size());
    EXPECT_EQ(find_invalid_utf8(text), std::string::npos);
  }
}

TEST(Utf8, RefusesOverlongSurrogateAndTruncatedForms) {
  EXPECT_EQ(find_invalid_utf8("ab\xc0\x80"), 2u);        // overlong NUL
  EXPECT_EQ(find_invalid_utf8("\xe0\x80\x80"), 0u);      // overlong
  EXPECT_EQ(find_invalid_utf8("\xed\xa0\x80"), 0u);      // a surrogate
  EXPECT_EQ(find_invalid_utf8("\xf4\x90\x80\x80"), 0u);  // above U+10FFFF
  EXPECT_EQ(find_invalid_utf8("x\xe2\x82"), 1u);         // cut short
  EXPECT_EQ(find_invalid_utf8("x\x80"), 1u);             // a lone continuation
}

}  // namespace
}  // namespace openwork
