#include "base/prompt_interval.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/philox.h"

namespace openwork {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

struct Counted {
  double mean = kNone;
  size_t values = 0;  // that are numbers
};

Counted mean_of_finite(std::span<const double> values) {
  double sum = 0;
  size_t count = 0;
  for (const double value : values) {
    if (!std::isnan(value)) sum += value, ++count;
  }
  return {count > 0 ? sum / static_cast<double>(count) : kNone, count};
}

}  // namespace

PromptResampler::PromptResampler(size_t prompts, uint64_t seed, int64_t draws)
    : prompts_(prompts), picks_(prompts * static_cast<size_t>(draws)) {
  for (size_t n = 0; n < picks_.size(); ++n) {
    const uint64_t word = philox(seed, n).word[0];
    picks_[n] = static_cast<uint32_t>((word * prompts_) >> 32);
  }
}

MeanInterval PromptResampler::summarise(std::span<const double> values) const {
  const Counted counted = mean_of_finite(values);
  MeanInterval summary{counted.mean, kNone, kNone};
  if (counted.values < 2) return summary;
  std::vector<double> means;
  means.reserve(prompts_ > 0 ? picks_.size() / prompts_ : 0);
  for (size_t first = 0; first < picks_.size(); first += prompts_) {
    double sum = 0, count = 0;
    for (size_t n = 0; n < prompts_; ++n) {
      const double value = values[picks_[first + n]];
      if (!std::isnan(value)) sum += value, ++count;
    }
    if (count > 0) means.push_back(sum / count);
  }
  if (means.empty()) return summary;
  std::sort(means.begin(), means.end());
  const auto at_share = [&](double share) {
    return means[static_cast<size_t>(share * static_cast<double>(means.size() - 1))];
  };
  summary.low = at_share(0.025);
  summary.high = at_share(0.975);
  return summary;
}

}  // namespace openwork
