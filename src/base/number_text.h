// Whole numbers as people read them: 12,288.
#pragma once
#include <cstdint>
#include <string>

namespace openwork {

// Thousands apart by commas. `digits` may begin with a minus and is nothing but digits else.
std::string group_digits(const std::string& digits);
std::string group_digits(int64_t number);

}  // namespace openwork
