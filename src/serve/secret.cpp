#include "serve/secret.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <vector>

#include "base/error.h"

namespace openwork::serve {

std::string make_secret(size_t bytes) {
  std::vector<unsigned char> random(bytes);
  if (getrandom(random.data(), bytes, 0) != static_cast<ssize_t>(bytes))
    fail("no random numbers", "getrandom", "use a system that has them");
  std::string text;
  for (const unsigned char byte : random) text += fmt::format("{:02x}", byte);
  return text;
}

bool same_secret(std::string_view a, std::string_view b) {
  unsigned char differs = a.size() == b.size() ? 0 : 1;
  for (size_t n = 0; n < b.size(); ++n)
    differs |= static_cast<unsigned char>((n < a.size() ? a[n] : 0) ^ b[n]);
  return differs == 0;
}

}  // namespace openwork::serve
