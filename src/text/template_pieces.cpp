// A template cut into text, {{ }} and {% %}, and the inside of those into words and signs. Whitespace goes as in
// transformers: a newline after %} (trim_blocks), spaces before {% at a line's start (lstrip_blocks), all
// whitespace on the side of a minus sign, and one newline at the template's very end.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"
#include "text/template_tree.h"

namespace openwork::templates {
namespace {

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

void trim_end(std::string& text) {
  while (!text.empty() && is_space(text.back())) text.pop_back();
}

// Spaces and tabs since the last newline, where there is nothing else on the line.
void trim_line_start(std::string& text, bool at_line_start) {
  const size_t last = text.find_last_not_of(" \t");
  if (last == std::string::npos ? at_line_start : text[last] == '\n') text.resize(last + 1);
}

// Where the sign that ends a piece stands: not inside of a quoted text.
size_t find_end(std::string_view text, size_t from, std::string_view end) {
  char quote = 0;
  for (size_t n = from; n < text.size(); ++n) {
    if (quote) {
      if (text[n] == '\\')
        ++n;
      else if (text[n] == quote)
        quote = 0;
    } else if (text.substr(n, end.size()) == end) {
      return n;
    } else if (text[n] == '\'' || text[n] == '"') {
      quote = text[n];
    }
  }
  return std::string_view::npos;
}

char unescape(char c) {
  return c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c == 'b' ? '\b' : c == 'f' ? '\f' : c;
}

// "\u00e9" and "\xe9" as UTF-8; `at` is behind the letter and moves past the digits.
bool take_code_point(std::string_view text, size_t& at, size_t digits, std::string& out) {
  char32_t value = 0;
  if (at + digits > text.size()) return false;
  for (size_t n = 0; n < digits; ++n) {
    const char c = text[at + n];
    const int digit = is_digit(c)            ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return false;
    value = value * 16 + static_cast<char32_t>(digit);
  }
  if (value >= 0xD800 && value < 0xE000) return false;
  at += digits;
  append_utf8(out, value);
  return true;
}

// The text behind the quote at `at`, which moves past its end.
std::string take_string(std::string_view text, size_t& at, int line, const std::string& origin) {
  const char quote = text[at++];
  std::string out;
  for (; at < text.size() && text[at] != quote; ++at) {
    if (text[at] != '\\' || at + 1 >= text.size()) {
      out += text[at];
      continue;
    }
    const char escaped = text[++at];
    if (escaped == 'u' || escaped == 'x') {
      size_t digits = at + 1;
      if (!take_code_point(text, digits, escaped == 'u' ? 4 : 2, out))
        refuse_template("a bad escape in a text", origin, line);
      at = digits - 1;
    } else if (escaped != '\n') {
      if (unescape(escaped) == escaped && std::string_view("\\'\"").find(escaped) == std::string_view::npos)
        out += '\\';
      out += unescape(escaped);
    }
  }
  if (at >= text.size()) refuse_template("a text without its end", origin, line);
  ++at;
  return out;
}

constexpr size_t kMostTokens = 4096;
constexpr std::string_view kSigns[] = {"**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "<",
                                       ">",  "=",  "(",  ")",  "[",  "]",  "{", "}", ",", ".", ":", "|"};

}  // namespace

void refuse_template(const std::string& what, const std::string& origin, int line) {
  fail_input(what, fmt::format("chat template of {}, line {}", origin, line),
             "use another template, or leave --chat out");
}

std::vector<Piece> split_template(std::string_view text, const std::string& origin) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  std::vector<Piece> pieces;
  Piece current;
  int line = 1;
  bool after_block = false, trim_next = false;  // a newline after %} goes; all whitespace after -%}
  const auto append = [&](std::string_view part) {
    if (trim_next) {
      while (!part.empty() && is_space(part.front())) part.remove_prefix(1);
    } else if (after_block && part.starts_with('\n')) {
      part.remove_prefix(1);
    } else if (after_block && part.starts_with("\r\n")) {
      part.remove_prefix(2);
    }
    current.text += part;
  };
  for (size_t at = 0; at < text.size();) {
    size_t open = at;
    while (open + 1 < text.size() &&
           !(text[open] == '{' && std::string_view("{%#").find(text[open + 1]) != std::string_view::npos))
      ++open;
    if (open + 1 >= text.size()) open = text.size();
    const std::string_view plain = text.substr(at, open - at);
    // A line starts here where the piece before ended one, or where nothing stands before.
    const bool at_line_start =
        at == 0 || (after_block && (plain.starts_with('\n') || plain.starts_with("\r\n")));
    append(plain);
    line += static_cast<int>(std::count(plain.begin(), plain.end(), '\n'));
    if (open == text.size()) break;
    const char kind = text[open + 1];
    size_t first = open + 2;
    const bool trims = first < text.size() && text[first] == '-',
               keeps = first < text.size() && text[first] == '+';
    if (trims || keeps) ++first;
    const std::string end = kind == '{' ? "}}" : kind == '%' ? "%}" : "#}";
    const size_t close = kind == '#' ? text.find(end, first) : find_end(text, first, end);
    if (close == std::string_view::npos)
      refuse_template(fmt::format("'{}{}' without its end", '{', kind), origin, line);
    if (trims)
      trim_end(current.text);
    else if (kind != '{' && !keeps)
      trim_line_start(current.text, at_line_start);
    current.line = line;
    if (!current.text.empty()) pieces.push_back(std::move(current));
    current = {};
    std::string_view inside = text.substr(first, close - first);
    trim_next = inside.ends_with('-');
    const bool keeps_newline = inside.ends_with('+');
    if (trim_next || keeps_newline) inside.remove_suffix(1);
    if (kind != '#')
      pieces.push_back(
          {kind == '{' ? Piece::Kind::kOutput : Piece::Kind::kStatement, std::string(inside), line});
    line += static_cast<int>(std::count(text.begin() + static_cast<std::ptrdiff_t>(open),
                                        text.begin() + static_cast<std::ptrdiff_t>(close), '\n'));
    after_block = kind != '{' && !keeps_newline;
    at = close + 2;
  }
  if (!current.text.empty()) pieces.push_back(std::move(current));
  return pieces;
}

std::vector<Token> split_tokens(std::string_view text, int line, const std::string& origin) {
  std::vector<Token> tokens;
  for (size_t at = 0; at < text.size();) {
    // A tree is at most as deep as its expression is long.
    if (tokens.size() > kMostTokens)
      refuse_template(fmt::format("an expression of more than {} words and signs", kMostTokens), origin,
                      line);
    const char c = text[at];
    if (is_space(c)) {
      line += c == '\n';
      ++at;
    } else if (c == '\'' || c == '"') {
      tokens.push_back({Token::Kind::kString, take_string(text, at, line, origin), line});
    } else if (is_name_start(c) || is_digit(c)) {
      const bool number = is_digit(c);
      const size_t first = at;
      while (at < text.size() &&
             (is_digit(text[at]) || (!number && is_name_start(text[at])) ||
              (number && text[at] == '.' && at + 1 < text.size() && is_digit(text[at + 1]))))
        ++at;
      tokens.push_back({number ? Token::Kind::kNumber : Token::Kind::kName,
                        std::string(text.substr(first, at - first)), line});
    } else {
      const auto* sign = std::find_if(std::begin(kSigns), std::end(kSigns),
                                      [&](std::string_view s) { return text.substr(at).starts_with(s); });
      if (sign == std::end(kSigns))
        refuse_template(fmt::format("unexpected '{}'", printable(text.substr(at, 1))), origin, line);
      tokens.push_back({Token::Kind::kSign, std::string(*sign), line});
      at += sign->size();
    }
  }
  tokens.push_back({Token::Kind::kEnd, "", line});
  return tokens;
}

}  // namespace openwork::templates
