#include "train/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace openwork {

double Schedule::learning_rate(double progress) const {
  const double p = std::clamp(progress, 0.0, 1.0);
  if (p < warmup) return p / warmup;
  return p > 1 - decay ? (1 - p) / decay : 1;
}

bool Schedule::hard_gates(double progress, int64_t step) const {
  if (!is_annealing(progress)) return false;
  const double share = 1.5 * (progress - (1 - noise_anneal)) / noise_anneal;  // of hard steps, about here
  // Multiples of the golden ratio spread the hard steps evenly among the sampled ones.
  const double turn = static_cast<double>(step) * 0.6180339887498949;
  return turn - std::floor(turn) < share;
}

bool Schedule::is_annealing(double progress) const {
  return noise_anneal > 0 && progress >= 1 - noise_anneal;
}

bool Schedule::rounded_weights(double progress) const {
  return rounding > 0 && progress >= 1 - rounding;
}

double Schedule::gate_bias_shift(double progress) const {
  const double arrival = 1 - decay;
  return arrival > 0 ? bias_shift * std::clamp(progress / arrival, 0.0, 1.0) : bias_shift;
}

double Schedule::target(double target, double progress) const {
  // During the warm-up the rate is low too, but the model has only just been disturbed.
  return target + target_slack * (progress < warmup ? 1 : learning_rate(progress));
}

void check_schedule(const Schedule& schedule) {
  const auto check = [](double share, const char* option) {
    if (share >= 0 && share <= 1) return;
    fail_input(fmt::format("a share of {}", share), option, "give a number from 0 to 1");
  };
  check(schedule.warmup, "--warmup");
  check(schedule.decay, "--decay");
  check(schedule.noise_anneal, "--noise-anneal");
  check(schedule.rounding, "--compact-share");
  if (schedule.warmup + schedule.decay > 1) {
    fail_input(fmt::format("--warmup {} and --decay {} overlap", schedule.warmup, schedule.decay), "schedule",
               "let them sum to at most 1");
  }
}

}  // namespace openwork
