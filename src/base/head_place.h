// Where a head is, and how it is written: L5H1.
#pragma once
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace openwork {

struct HeadPlace {
  int64_t layer = 0, head = 0;

  auto operator<=>(const HeadPlace&) const = default;
  std::string name() const { return "L" + std::to_string(layer) + "H" + std::to_string(head); }
};

// "L5H1" and nothing around it; empty where the text has another form. Whether the model has such a head is
// the caller's to ask.
std::optional<HeadPlace> parse_head_place(std::string_view text);

}  // namespace openwork
