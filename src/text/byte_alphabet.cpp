#include "text/byte_alphabet.h"

#include <array>

#include "base/utf8.h"

namespace openwork {
namespace {

constexpr char32_t kFirstSubstitute = 0x100;
constexpr int kSubstitutes = 68;

struct Alphabet {
  std::array<std::string, 256> written;                        // byte -> UTF-8 character
  std::array<int, kFirstSubstitute + kSubstitutes> byte_of{};  // character -> byte, -1 for none

  Alphabet() {
    byte_of.fill(-1);
    char32_t substitute = kFirstSubstitute;
    for (char32_t byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
      const char32_t character = printable ? byte : substitute++;
      append_utf8(written[byte], character);
      byte_of[character] = static_cast<int>(byte);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet instance;
  return instance;
}

}  // namespace

std::string_view written_byte(uint8_t byte) {
  return alphabet().written[byte];
}

std::string write_bytes(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char byte : bytes) out += written_byte(static_cast<uint8_t>(byte));
  return out;
}

std::optional<std::string> read_written_bytes(std::string_view written) {
  const Alphabet& table = alphabet();
  std::string out;
  out.reserve(written.size());
  for (size_t at = 0; at < written.size();) {
    if (utf8_length_at(written, at) == 0) return std::nullopt;
    const char32_t character = next_code_point(written, at);
    if (character >= table.byte_of.size() || table.byte_of[character] < 0) return std::nullopt;
    out.push_back(static_cast<char>(table.byte_of[character]));
  }
  return out;
}

}  // namespace openwork
