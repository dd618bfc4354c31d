// Where a head is, and how it is written: L5H1.
#pragma once
#include <compare>
#include <cstdint>
#include <string>

namespace openwork {

struct HeadPlace {
  int64_t layer = 0, head = 0;

  auto operator<=>(const HeadPlace&) const = default;
  std::string name() const { return "L" + std::to_string(layer) + "H" + std::to_string(head); }
};

}  // namespace openwork
