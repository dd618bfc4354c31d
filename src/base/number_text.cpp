#include "base/number_text.h"

namespace openwork {

std::string group_digits(const std::string& digits) {
  std::string out;
  const size_t start = digits.starts_with('-') ? 1 : 0;
  for (size_t n = 0; n < digits.size(); ++n) {
    if (n > start && (digits.size() - n) % 3 == 0) out.push_back(',');
    out.push_back(digits[n]);
  }
  return out;
}

std::string group_digits(int64_t number) {
  return group_digits(std::to_string(number));
}

}  // namespace openwork
