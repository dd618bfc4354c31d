// Means over prompts with their 95 % bootstrap intervals, for thousands of numbers at once: the prompts drawn
// are the same for all of them, and drawn only once.
//   const PromptResampler resampler(prompts, seed);
//   const MeanInterval mass = resampler.summarise(mass_by_prompt);
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace openwork {

struct MeanInterval {
  double mean = 0, low = 0, high = 0;
};

class PromptResampler {
 public:
  PromptResampler(size_t prompts, uint64_t seed, int64_t draws = 1000);

  // NaN values are left out, here and in every draw; the mean of nothing is NaN, and so are
  // the bounds of one value alone.
  MeanInterval summarise(std::span<const double> values) const;

 private:
  size_t prompts_;
  std::vector<uint32_t> picks_;  // [draws, prompts]
};

}  // namespace openwork
