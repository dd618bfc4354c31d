// Patterns written for Oniguruma mean the same to PCRE2, or are refused.
#include "text/pattern.h"

#include "text/pattern_syntax.h"
#include "text/text_files.h"

namespace openwork {
namespace {

std::vector<std::string> matches(const std::string& expression, std::string_view text) {
  const Pattern pattern(expression, "test");
  MatchScratch scratch;
  std::vector<std::string> found;
  pattern.for_each_match(
      text, scratch, [&](size_t start, size_t end) { found.emplace_back(text.substr(start, end - start)); });
  return found;
}

using Found = std::vector<std::string>;

TEST(Pattern, TakesTheMongolianVowelSeparatorForNoSpace) {
  EXPECT_EQ(matches("\\s+", "a \xe1\xa0\x8e b"), (Found{" ", " "}));
  EXPECT_EQ(matches("[^\\s]+", "a\xe1\xa0\x8e b"), (Found{"a\xe1\xa0\x8e", "b"}));
  EXPECT_EQ(matches("\\S+", "a\xc2\x85z"), (Found{"a", "z"}));  // U+0085 is one
}

TEST(Pattern, KnowsTheLettersAndNumbersOfUnicode16) {
  EXPECT_EQ(matches("\\p{L}+", "\xf0\xb1\x8d\x90!"), (Found{"\xf0\xb1\x8d\x90"}));  // U+31350, of Unicode 15
  EXPECT_EQ(matches("[^\\p{L}]+", "\xe1\xb2\x89!"), (Found{"!"}));                  // U+1C89, of Unicode 16
  EXPECT_EQ(matches("\\p{N}", "\xf0\x90\xb5\x80"), (Found{"\xf0\x90\xb5\x80"}));    // U+10D40, of Unicode 16
}

TEST(Pattern, CountsEmptyMatchesAsOnigurumaDoes) {
  size_t count = 0;
  MatchScratch scratch;
  Pattern("(?=b)", "test").for_each_match("abab", scratch, [&](size_t start, size_t end) {
    EXPECT_EQ(start, end);
    EXPECT_EQ(start, count == 0 ? 1u : 3u);
    ++count;
  });
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(matches("x*", "axb"), (Found{"", "x", ""}));
}

TEST(Pattern, RepeatsWhatRubyRepeats) {
  EXPECT_EQ(matches("a{1,2}+", "aaaaa"), (Found{"aaaaa"}));
  EXPECT_EQ(matches("ba{2}?", "baab"), (Found{"baa", "b"}));
  EXPECT_EQ(matches("a{,2}b", "aab"), (Found{"aab"}));
  EXPECT_EQ(matches("a{x", "a{x"), (Found{"a{x"}));
  EXPECT_EQ(matches("(?:ab){2}+", "ababababab"), (Found{"abababab"}));
}

TEST(Pattern, ReadsSetsInSetsAndLiteralBrackets) {
  EXPECT_EQ(matches("[a[bc]]+", "abcd"), (Found{"abc"}));
  EXPECT_EQ(matches("[]a]+", "x]ay"), (Found{"]a"}));
  EXPECT_EQ(matches("[\\w-]+", "a-b c"), (Found{"a-b", "c"}));
  EXPECT_EQ(matches("[\\]\\[]+", "a[]b"), (Found{"[]"}));
}

TEST(Pattern, RefusesWhatMeansSomethingElseOrNothing) {
  for (const char* expression :
       {"[a&&b]", "[a[^b]]", "[[:alpha:]]", "\\R", "\\X", "\\K", "\\Ga", "(?~ab)", "(*FAIL)", "a(?i)b",
        "(?<name>a)", "(?x: a)", "[a", "\\", "\\p{L", "\\pL", "\\xff", "\\u12", ")"})
    expect_bad_input("not supported", [&] { Pattern(expression, "file.json"); });
  for (const char* expression : {"(a", "a**b", "\\p{NoSuchThing}", "(?<=a+)b", "[z-a]"})
    expect_bad_input("file.json", [&] { Pattern(expression, "file.json"); });
}

TEST(Pattern, StopsAPatternThatNeedsTooManySteps) {
  const Pattern pattern("\\A(?:(?:a+)+)+$", "file.json");
  MatchScratch scratch;
  size_t start = 0, end = 0;
  expect_bad_input("could not be run",
                   [&] { pattern.find(std::string(60, 'a') + "c", 0, scratch, start, end); });
}

}  // namespace
}  // namespace openwork
