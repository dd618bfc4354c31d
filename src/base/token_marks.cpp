#include "base/token_marks.h"

#include <fmt/format.h>

#include <vector>

#include "base/utf8.h"

namespace openwork {
namespace {

struct Range {
  char32_t first, last;
};

// Characters without ink, and those that change how their neighbours are shown.
constexpr Range kUnseen[] = {{0x00, 0x1F},     {0x7F, 0xA0},     {0xAD, 0xAD},      {0x34F, 0x34F},
                             {0x61C, 0x61C},   {0x115F, 0x1160}, {0x1680, 0x1680},  {0x17B4, 0x17B5},
                             {0x180B, 0x180E}, {0x2000, 0x200F}, {0x2028, 0x202F},  {0x205F, 0x206F},
                             {0x3000, 0x3000}, {0x3164, 0x3164}, {0xFE00, 0xFE0F},  {0xFEFF, 0xFEFF},
                             {0xFFA0, 0xFFA0}, {0xFFF0, 0xFFFB}, {0xE0000, 0xE0FFF}};
constexpr Range kCombining[] = {
    {0x300, 0x36F}, {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF}, {0x20D0, 0x20FF}, {0xFE20, 0xFE2F}};

template <size_t N>
bool is_in(const Range (&ranges)[N], char32_t point) {
  for (const Range& range : ranges) {
    if (point >= range.first && point <= range.last) return true;
  }
  return false;
}

std::string mark_character(char32_t point, bool first) {
  if (point == ' ') return "·";
  if (point == '\n') return "↵";
  if (point == '\t') return "⇥";
  if (is_in(kUnseen, point)) return fmt::format("\\u{:04X}", static_cast<uint32_t>(point));
  std::string out = first && is_in(kCombining, point) ? "◌" : "";
  append_utf8(out, point);
  return out;
}

}  // namespace

std::string mark_token(std::string_view bytes, size_t limit) {
  if (bytes.empty()) return "∅";
  std::vector<std::string> marks;
  for (size_t at = 0; at < bytes.size();) {
    if (utf8_length_at(bytes, at) == 0) {
      marks.push_back(fmt::format("\\x{:02X}", static_cast<unsigned char>(bytes[at++])));
    } else {
      const bool first = at == 0;
      marks.push_back(mark_character(next_code_point(bytes, at), first));
    }
  }
  std::string out;
  for (size_t n = 0; n < marks.size(); ++n) {
    if (n + 1 == limit && marks.size() > limit) return out + "…";
    out += marks[n];
  }
  return out;
}

std::string quote_token(std::string_view bytes) {
  constexpr size_t kMost = 200;
  return "'" + (bytes.empty() ? std::string() : mark_token(bytes, kMost)) + "'";
}

}  // namespace openwork
