#include "train/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace openwork {
namespace {

constexpr double kAfterHeads = 0.5;  // share of the run in which the head penalty has arrived

// How much of a way is behind at this progress, where it ends `rest` before the run does.
double share_of_way(double progress, double rest) {
  const double arrival = 1 - rest;
  return arrival > 0 ? std::clamp(progress / arrival, 0.0, 1.0) : 1;
}

void check_sharpness(double sharpness, const char* option) {
  if (sharpness == 1 || sharpness == 2 || sharpness == 4) return;
  fail_input(fmt::format("a sharpness of {}", sharpness), option, "give 1, 2 or 4: kernels know no other");
}

}  // namespace

double Schedule::learning_rate(double progress) const {
  const double p = std::clamp(progress, 0.0, 1.0);
  if (p < warmup) return p / warmup;
  return p > 1 - decay ? (1 - p) / decay : 1;
}

bool Schedule::hard_gates(double progress, int64_t step) const {
  if (!is_annealing(progress)) return false;
  // The share of hard steps about here. Sampled steps go on nearly to the end: they alone close gates, and
  // what they no longer close, the falling learning rate gives away as a loss below the target.
  const double share = (progress - (1 - noise_anneal)) / (0.9 * noise_anneal);
  // Multiples of the golden ratio spread the hard steps evenly among the sampled ones.
  const double turn = static_cast<double>(step) * 0.6180339887498949;
  return turn - std::floor(turn) < share;
}

bool Schedule::is_annealing(double progress) const {
  return noise_anneal > 0 && progress >= 1 - noise_anneal;
}

double Schedule::rounded_share(double progress) const {
  const double since = progress - (1 - rounding);
  if (rounding <= 0 || since < 0) return 0;
  return rounding_ramp > 0 ? std::min(since / rounding_ramp, 1.0) : 1;
}

double Schedule::gate_bias_shift(double progress) const {
  return bias_shift * share_of_way(progress, decay);
}

double Schedule::gate_idle_shift(double progress) const {
  return idle_shift * share_of_way(progress, decay);
}

double Schedule::gate_sharpness(double progress) const {
  const double doublings = std::log2(sharpness_end / sharpness);  // a whole number, of either sign
  const double places = std::abs(doublings) + 1;
  const double place = std::floor(std::clamp(progress, 0.0, 1.0) * places);
  return sharpness * std::exp2(std::copysign(std::min(place, places - 1), doublings));
}

double Schedule::head_penalty(double start, double progress) const {
  return std::lerp(start, head_penalty_end.value_or(start), share_of_way(progress, kAfterHeads));
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
  check(schedule.rounding_ramp, "--compact-ramp");
  if (schedule.rounding_ramp > schedule.rounding) {
    fail_input(fmt::format("a ramp of {} within a share of {}", schedule.rounding_ramp, schedule.rounding),
               "--compact-ramp",
               "let it be at most --compact-share: a run must end on the weights that are saved");
  }
  check_sharpness(schedule.sharpness, "--sharpness");
  check_sharpness(schedule.sharpness_end, "--sharpness-end");
  if (schedule.warmup + schedule.decay > 1) {
    fail_input(fmt::format("--warmup {} and --decay {} overlap", schedule.warmup, schedule.decay), "schedule",
               "let them sum to at most 1");
  }
}

}  // namespace openwork
