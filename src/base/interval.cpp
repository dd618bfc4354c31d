#include "base/interval.h"

#include <algorithm>
#include <vector>

#include "base/interval_text.h"
#include "base/philox.h"

namespace openwork {

Interval bootstrap_ratio(std::span<const double> totals, std::span<const double> weights, uint64_t seed,
                         int64_t draws) {
  const size_t count = totals.size();
  if (count < 2) return kNoInterval;
  std::vector<double> ratios(static_cast<size_t>(draws));
  for (size_t draw = 0; draw < ratios.size(); ++draw) {
    double total = 0, weight = 0;
    for (size_t n = 0; n < count; ++n) {
      const uint32_t word = philox(seed, draw * count + n).word[0];
      const size_t pick = static_cast<size_t>((static_cast<uint64_t>(word) * count) >> 32);
      total += totals[pick];
      weight += weights[pick];
    }
    ratios[draw] = weight > 0 ? total / weight : 0;
  }
  std::sort(ratios.begin(), ratios.end());
  const auto at_share = [&](double share) {
    return ratios[static_cast<size_t>(share * static_cast<double>(ratios.size() - 1))];
  };
  return {at_share(0.025), at_share(0.975)};
}

}  // namespace openwork
