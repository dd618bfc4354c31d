// Switches in the environment.
#pragma once
#include <cstdlib>
#include <string_view>

namespace openwork {

inline bool is_set_to(const char* name, std::string_view value) {
  const char* const text = std::getenv(name);
  return text && text == value;
}

}  // namespace openwork
