#include "base/near_names.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace openwork {
namespace {

constexpr size_t kShown = 3, kCompared = 20000, kLongest = 256;

// Levenshtein's, one row of the table at a time.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = std::exchange(row[j + 1], std::min({replaced, row[j] + 1, row[j + 1] + 1}));
    }
  }
  return row.back();
}

}  // namespace

std::vector<std::string> near_names(std::string_view name, const std::vector<std::string>& known,
                                    Nearness nearness) {
  if (name.size() > kLongest) return {};
  std::vector<std::pair<size_t, std::string>> near;
  for (size_t n = 0; n < std::min(known.size(), kCompared); ++n) {
    if (known[n].size() > kLongest) continue;
    const size_t distance = edit_distance(name, known[n]);
    if (nearness == Nearness::kAny || distance <= std::max<size_t>(2, known[n].size() / 3))
      near.emplace_back(distance, known[n]);
  }
  const size_t shown = std::min(kShown, near.size());
  std::partial_sort(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(shown), near.end());
  std::vector<std::string> names;
  for (size_t n = 0; n < shown; ++n) names.push_back(std::move(near[n].second));
  return names;
}

}  // namespace openwork
