#include "base/error.h"

#include <fmt/format.h>

#include "base/utf8.h"

namespace openwork {

Error::Error(Kind kind, std::string_view what, std::string_view where, std::string_view advice)
    : std::runtime_error(
          fmt::format("{}; {}; {}", printable(what, 2000), printable(where, 2000), printable(advice, 2000))),
      kind_(kind) {}

void fail_input(std::string_view what, std::string_view where, std::string_view advice) {
  throw Error(Error::Kind::kInput, what, where, advice);
}

void fail(std::string_view what, std::string_view where, std::string_view advice) {
  throw Error(Error::Kind::kFailure, what, where, advice);
}

std::string printable(std::string_view text, size_t limit) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    if (out.size() >= limit) return out + "...";
    const size_t length = utf8_length_at(text, i);
    const auto byte = static_cast<unsigned char>(text[i]);
    if (length == 0 || byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
      i += 1;
    } else {
      out.append(text.substr(i, length));
      i += length;
    }
  }
  return out;
}

}  // namespace openwork
