// Regular expressions of tokenizer.json files, run by PCRE2 with its just-in-time compiler.
// The files are written for Oniguruma (Ruby syntax, Unicode 16); pattern_syntax.h says what is translated so
// that every match is the same. A Pattern is shared by threads; each thread brings its own MatchScratch.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace openwork {

// Working memory of a match: what PCRE2 writes results and its stack to.
class MatchScratch {
 public:
  MatchScratch();
  ~MatchScratch();
  MatchScratch(const MatchScratch&) = delete;
  MatchScratch& operator=(const MatchScratch&) = delete;

 private:
  friend class Pattern;
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

class Pattern {
 public:
  // `expression` in tokenizer.json's syntax. Fails, naming `where`, on one that cannot be compiled or means
  // something else to PCRE2.
  Pattern(std::string_view expression, const std::string& where);

  // Matches exactly `text`.
  static Pattern literal(std::string_view text, const std::string& where);
  // An expression already in PCRE2's own syntax.
  static Pattern native(const std::string& expression, const std::string& where);

  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;
  ~Pattern();

  // Finds the first match that starts at or after `from` in `text`, which must be valid UTF-8; false when
  // there is none. Fails where the expression needs too many steps or too much stack.
  bool find(std::string_view text, size_t from, MatchScratch& scratch, size_t& start, size_t& end) const;

  // Calls visit(start, end) for every match in order. An empty match counts unless it touches the match
  // before.
  template <typename Visit>
  void for_each_match(std::string_view text, MatchScratch& scratch, Visit visit) const {
    size_t from = 0, start = 0, end = 0, last_end = std::string_view::npos;
    while (from <= text.size() && find(text, from, scratch, start, end)) {
      if (start == end && end == last_end) {
        from = next_character(text, from);
        continue;
      }
      visit(start, end);
      from = last_end = end;
    }
  }

 private:
  struct Compiled;
  explicit Pattern(std::unique_ptr<Compiled> compiled);
  static size_t next_character(std::string_view text, size_t at);

  std::unique_ptr<Compiled> compiled_;
};

}  // namespace openwork
