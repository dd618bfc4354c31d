// Whole numbers as people read them: 12,288; 1 prompt, 2 prompts.
#pragma once
#include <fmt/format.h>

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace openwork {

// Thousands apart by commas. `digits` may begin with a minus and is nothing but digits else.
std::string group_digits(const std::string& digits);
std::string group_digits(int64_t number);

// "1 prompt", "2 prompts".
template <std::integral Number>
std::string count_of(Number number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

}  // namespace openwork
