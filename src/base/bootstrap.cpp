#include "base/bootstrap.h"

#include <algorithm>
#include <cmath>

#include "base/interval_text.h"
#include "base/philox.h"

namespace openwork {

Interval bootstrap_statistic(size_t count,
                             const std::function<double(const std::vector<size_t>& drawn)>& statistic,
                             uint64_t seed, int64_t draws) {
  if (count < 2) return kNoInterval;
  std::vector<double> values;
  std::vector<size_t> drawn(count);
  for (size_t draw = 0; draw < static_cast<size_t>(draws); ++draw) {
    for (size_t n = 0; n < count; ++n) {
      const uint32_t word = philox(seed, draw * count + n).word[0];
      drawn[n] = static_cast<size_t>((static_cast<uint64_t>(word) * count) >> 32);
    }
    if (const double value = statistic(drawn); !std::isnan(value)) values.push_back(value);
  }
  if (values.empty()) return kNoInterval;
  std::sort(values.begin(), values.end());
  const auto at_share = [&](double share) {
    return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
  };
  return {at_share(0.025), at_share(0.975)};
}

}  // namespace openwork
