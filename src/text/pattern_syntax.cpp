#include "text/pattern_syntax.h"

#include <fmt/format.h>

#include <cctype>
#include <utility>
#include <vector>

#include "base/error.h"
#include "text/unicode_sets.h"

namespace openwork {
namespace {

bool is_alphanumeric(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0;
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// A walk over the expression that writes PCRE2's into out_.
class Translator {
 public:
  Translator(std::string_view in, const std::string& where) : in_(in), where_(where) {}

  std::string run() {
    while (at_ < in_.size()) translate_item();
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view construct) const {
    fail_input(
        fmt::format("regular expression {} uses {}, which is not supported", printable(in_), construct),
        where_, "use a tokenizer with a simpler pattern");
  }

  char peek(size_t ahead = 0) const { return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0'; }
  bool next_is(std::string_view text) const { return in_.substr(at_).starts_with(text); }

  void translate_item() {
    const char c = in_[at_];
    if (c == '*' || c == '+' || c == '?') return copy_quantifier();
    if (c == '{') return translate_braces();
    if (c == ')') return close_group();
    if (c == '|' || c == '^' || c == '$') {
      out_ += c;
      ++at_;
      atom_ = out_.size();
      return;
    }
    const size_t start = out_.size();
    if (c == '(') return open_group();
    if (c == '[') {
      translate_set();
    } else if (c == '\\') {
      translate_escape();
    } else {
      do out_ += in_[at_++];
      while (at_ < in_.size() && (static_cast<unsigned char>(in_[at_]) & 0xc0) == 0x80);
    }
    atom_ = start;
  }

  void copy_quantifier() {
    out_ += in_[at_++];
    if (peek() == '?' || peek() == '+') out_ += in_[at_++];
  }

  // {n}, {n,}, {,m}, {n,m}; anything else is a literal brace.
  void translate_braces() {
    size_t end = at_ + 1;
    while (end < in_.size() && (is_digit(in_[end]) || in_[end] == ',')) ++end;
    const std::string_view body = in_.substr(at_ + 1, end - at_ - 1);
    const size_t comma = body.find(',');
    const bool counts =
        !body.empty() && body != "," && end < in_.size() && in_[end] == '}' &&
        (comma == std::string_view::npos || body.find(',', comma + 1) == std::string_view::npos);
    if (!counts) {
      atom_ = out_.size();
      out_ += "\\{";
      ++at_;
      return;
    }
    out_ += fmt::format("{{{}{}}}", comma == 0 ? "0" : "", body);
    at_ = end + 1;
    const bool exact = comma == std::string_view::npos;
    if (peek() == '+' || (peek() == '?' && exact)) {  // in Ruby this repeats the repetition
      out_.insert(atom_, "(?:");
      out_ += ')';
      copy_quantifier();
    } else if (peek() == '?') {
      out_ += in_[at_++];
    }
  }

  void close_group() {
    if (groups_.empty()) refuse("an unmatched )");
    out_ += in_[at_++];
    atom_ = groups_.back();
    groups_.pop_back();
  }

  void open_group() {
    groups_.push_back(out_.size());
    if (next_is("(*")) refuse("(*");
    if (!next_is("(?")) {
      out_ += in_[at_++];
      return;
    }
    for (const std::string_view kind : {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"})
      if (next_is(kind)) {
        out_ += kind;
        at_ += kind.size();
        return;
      }
    translate_options();
  }

  // (?i:...) and, at the start of the expression, (?i).
  void translate_options() {
    const bool first = at_ == 0;
    out_ += "(?";
    at_ += 2;
    while (peek() == 'i' || peek() == 'm' || peek() == 'x' || peek() == '-') {
      out_ += peek() == 'm' ? 's' : peek();
      if (peek() == 'x') refuse("(?x)");
      ++at_;
    }
    if (peek() == ':') {
      out_ += in_[at_++];
    } else if (peek() == ')' && first) {
      out_ += in_[at_++];
      groups_.pop_back();
      atom_ = out_.size();
    } else {
      refuse("this kind of (?...)");
    }
  }

  void translate_escape() {
    const char c = peek(1);
    if (const std::string members = set_escape_members(false); !members.empty()) {
      out_ += members.starts_with("\\P") ? members : "[" + members + "]";
      return;
    }
    if (c == 'S' || c == 'W' || c == 'D' || c == 'H') return negated_escape(c);
    if (c == 'b' || c == 'B') return boundary_escape(c);
    if (c == 'A' || c == 'z' || c == 'Z' || is_digit(c)) {
      out_ += in_.substr(at_, 2);
      at_ += 2;
      return;
    }
    character_escape();
  }

  void negated_escape(char c) {
    out_ += fmt::format("[^{}]", c == 'S'   ? space_members()
                                 : c == 'W' ? lone_word_members()
                                 : c == 'D' ? property_members("Nd")
                                            : std::string("0-9a-fA-F"));
    at_ += 2;
  }

  void boundary_escape(char c) {
    const std::string word = "[" + lone_word_members() + "]";
    const auto form =
        c == 'b' ? "(?:(?<={0})(?!{0})|(?<!{0})(?={0}))" : "(?:(?<={0})(?={0})|(?<!{0})(?!{0}))";
    out_ += fmt::format(fmt::runtime(form), word);
    at_ += 2;
  }

  // For \s \w \d \h and \p{...} at the cursor: what stands for it inside a set, and moves past it; else "".
  std::string set_escape_members(bool in_set) {
    const char c = peek(1);
    if (c == 'p' || c == 'P') return property_escape();
    std::string members = c == 's'   ? space_members()
                          : c == 'w' ? (in_set ? word_members() : lone_word_members())
                          : c == 'd' ? property_members("Nd")
                          : c == 'h' ? std::string("0-9a-fA-F")
                                     : std::string();
    if (!members.empty()) at_ += 2;
    return members;
  }

  std::string property_escape() {
    const bool negated = (peek(1) == 'P') != (peek(3) == '^');
    const size_t start = at_ + (peek(3) == '^' ? 4 : 3);
    const size_t close = in_.find('}', start);
    if (peek(2) != '{' || close == std::string_view::npos) refuse("\\p without {...}");
    const std::string_view name = in_.substr(start, close - start);
    for (const char letter : name)
      if (!is_alphanumeric(letter) && letter != '_' && letter != ' ' && letter != '-')
        refuse("this \\p{...}");
    at_ = close + 1;
    if (!negated) return property_members(name);
    return fmt::format("\\P{{{}}}", name);
  }

  // An escape that stands for one character: \n, \x41, \x{1F600}, \u00e9, \.
  void character_escape() {
    const char c = peek(1);
    if (c == '\0') refuse("a lone \\ at its end");
    if (c == 'v') {
      out_ += "\\x0b";
      at_ += 2;
    } else if (c == 'x' || c == 'u') {
      hexadecimal_escape();
    } else if (is_alphanumeric(c) && std::string_view("tnrfae").find(c) == std::string_view::npos) {
      refuse(fmt::format("\\{}", c));
    } else {
      out_ += '\\';
      out_ += c;
      at_ += 2;
      if ((static_cast<unsigned char>(c) & 0x80) != 0) out_.erase(out_.size() - 2, 1);  // no \ before UTF-8
    }
  }

  void hexadecimal_escape() {
    const bool braces = peek(1) == 'x' && peek(2) == '{';
    size_t start = at_ + (braces ? 3 : 2), end = start;
    const size_t most = braces ? 8 : peek(1) == 'u' ? 4 : 2;
    while (end < in_.size() && end - start < most && std::isxdigit(static_cast<unsigned char>(in_[end])) != 0)
      ++end;
    const bool whole = braces ? end < in_.size() && in_[end] == '}' : peek(1) == 'x' || end - start == 4;
    if (end == start || !whole) refuse("a broken \\x or \\u");
    if (!braces && peek(1) == 'x' && end - start == 2 && in_[start] >= '8')
      refuse("\\x80 or above as a byte");
    out_ += fmt::format("\\x{{{}}}", in_.substr(start, end - start));
    at_ = end + (braces ? 1 : 0);
  }

  // [...]: sets inside are joined to it.
  void translate_set() {
    out_ += in_[at_++];
    if (peek() == '^') out_ += in_[at_++];
    size_t depth = 1;
    bool first = true;
    while (depth > 0) {
      if (at_ >= in_.size()) refuse("a [ without ]");
      const char c = in_[at_];
      if (c == ']' && !first) {
        if (--depth == 0) out_ += c;
        ++at_;
      } else if (c == '[') {
        if (peek(1) == '^' || peek(1) == ':') refuse("[^...] or [:...:] inside [...]");
        ++depth;
        ++at_;
      } else {
        translate_member();
      }
      first = c == '[';
    }
  }

  void translate_member() {
    const char c = in_[at_];
    if (next_is("&&")) refuse("&& inside [...]");
    const bool set_follows = peek(1) == '\\' &&
                             std::string_view("pPsSwWdDhH").find(peek(2)) != std::string_view::npos &&
                             peek(2) != '\0';
    if (c == '\\') {
      translate_member_escape();
    } else if (c == ']' || (c == '-' && set_follows)) {
      out_ += '\\';
      out_ += in_[at_++];
    } else {
      out_ += in_[at_++];
    }
  }

  void translate_member_escape() {
    const char c = peek(1);
    std::string members = set_escape_members(true);
    if (members.empty() && c == 'S') {
      members = non_space_members();
      at_ += 2;
    }
    if (!members.empty()) {
      out_ += members;
      if (peek() == '-') {  // a range cannot start at a set: the hyphen is itself
        out_ += "\\-";
        ++at_;
      }
    } else if (c == 'b') {
      out_ += "\\x08";
      at_ += 2;
    } else {
      character_escape();
    }
  }

  std::string_view in_;
  const std::string& where_;
  size_t at_ = 0;
  std::string out_;
  size_t atom_ = 0;             // where in out_ the last repeatable item starts
  std::vector<size_t> groups_;  // where in out_ the open groups start
};

}  // namespace

std::string translate_pattern(std::string_view expression, const std::string& where) {
  return Translator(expression, where).run();
}

}  // namespace openwork
