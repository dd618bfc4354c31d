// Paired tests over prompts by sign flips: where two models do not differ, each prompt's difference is as
// likely to have the other sign.  p = (1 + hits) / (1 + draws), a hit being a draw whose mean is at least as
// far from 0 as the one observed. Holm's correction makes the p values of a table hold together.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace openwork {

inline constexpr int64_t kSignFlipDraws = 10000;

// Two-sided. The same p for the same seed on every machine. No difference at all gives 1.
double sign_flip_test(std::span<const double> differences, uint64_t seed, int64_t draws = kSignFlipDraws);

// Holm's step-down correction, in the order given; never above 1.
std::vector<double> correct_by_holm(std::span<const double> p_values);

}  // namespace openwork
