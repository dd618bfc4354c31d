#include "base/head_place.h"

#include <charconv>

namespace openwork {
namespace {

std::optional<int64_t> parse_number(std::string_view digits) {
  int64_t value = 0;
  const char* const last = digits.data() + digits.size();
  const auto [end, error] = std::from_chars(digits.data(), last, value);
  if (error != std::errc() || end != last || value < 0 || digits.front() == '-') return std::nullopt;
  return value;
}

}  // namespace

std::optional<HeadPlace> parse_head_place(std::string_view text) {
  const size_t middle = text.find('H');
  if (!text.starts_with('L') || middle == std::string_view::npos) return std::nullopt;
  const auto layer = parse_number(text.substr(1, middle - 1)), head = parse_number(text.substr(middle + 1));
  if (!layer || !head) return std::nullopt;
  return HeadPlace{*layer, *head};
}

}  // namespace openwork
