#include "base/utf8.h"

namespace openwork {
namespace {

bool continues(std::string_view text, size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
}

}  // namespace

size_t utf8_length_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (at >= text.size()) return 0;
  const unsigned char lead = byte(at);
  if (lead < 0x80) return 1;
  if (lead < 0xc2) return 0;
  if (!continues(text, at + 1)) return 0;
  if (lead < 0xe0) return 2;
  const unsigned char second = byte(at + 1);
  if (lead < 0xf0) {
    if (lead == 0xe0 && second < 0xa0) return 0;   // overlong
    if (lead == 0xed && second >= 0xa0) return 0;  // a surrogate
    return continues(text, at + 2) ? 3 : 0;
  }
  if (lead > 0xf4) return 0;
  if (lead == 0xf0 && second < 0x90) return 0;   // overlong
  if (lead == 0xf4 && second >= 0x90) return 0;  // above U+10FFFF
  return continues(text, at + 2) && continues(text, at + 3) ? 4 : 0;
}

size_t find_invalid_utf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t length = utf8_length_at(text, at);
    if (length == 0) return at;
    at += length;
  }
  return std::string_view::npos;
}

char32_t next_code_point(std::string_view text, size_t& at) {
  const size_t length = utf8_length_at(text, at);
  const auto bits = [&](size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[at + i])); };
  char32_t code = 0;
  switch (length) {
    case 1:
      code = bits(0);
      break;
    case 2:
      code = (bits(0) & 0x1f) << 6 | (bits(1) & 0x3f);
      break;
    case 3:
      code = (bits(0) & 0x0f) << 12 | (bits(1) & 0x3f) << 6 | (bits(2) & 0x3f);
      break;
    case 4:
      code = (bits(0) & 0x07) << 18 | (bits(1) & 0x3f) << 12 | (bits(2) & 0x3f) << 6 | (bits(3) & 0x3f);
      break;
    default:
      break;
  }
  at += length == 0 ? 1 : length;
  return code;
}

void append_utf8(std::string& out, char32_t code) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6);
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  }
}

}  // namespace openwork
