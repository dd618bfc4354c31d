// Random names that nobody can guess, and comparing them without saying how far they agree.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace openwork::serve {

std::string make_secret(size_t bytes);  // as hexadecimal digits, from the system's own source
bool same_secret(std::string_view a, std::string_view b);

}  // namespace openwork::serve
