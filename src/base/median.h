// The middle of numbers in order; the mean of the two middle ones where there is an even number of them.
#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

namespace openwork {

// Needs at least one value.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace openwork
