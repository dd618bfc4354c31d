#include "draw/ticks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/number_text.h"

namespace openwork::draw {
namespace {

// The one of 1, 2, 5, 10 times a power of ten that is nearest to `rough` by ratio.
double round_step(double rough) {
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double best = power;
  for (const double factor : {2.0, 5.0, 10.0}) {
    if (std::abs(std::log(factor * power / rough)) < std::abs(std::log(best / rough))) best = factor * power;
  }
  return best;
}

std::string format_fixed(double value, int decimals) {
  const std::string text = fmt::format("{:.{}f}", value == 0 ? 0.0 : value, decimals);
  return decimals == 0 ? group_digits(text) : text;
}

// Labels of ticks `step` apart, all with the same number of decimals.
std::string label_of(double value, double step, double largest) {
  if (largest >= 1e7 || step < 1e-6) return format_number(value);
  const int decimals = std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
  return format_fixed(value, decimals);
}

}  // namespace

std::vector<Tick> choose_ticks(double low, double high, int wanted) {
  if (!(low < high) || !std::isfinite(low) || !std::isfinite(high)) return {{low, format_number(low)}};
  double step = round_step((high - low) / std::max(1, wanted));
  const double slack = step * 1e-9;
  if (std::ceil((low - slack) / step) * step > high + slack)
    step = round_step(step / 10);  // a narrow range between two
  std::vector<Tick> ticks;
  const double largest = std::max(std::abs(low), std::abs(high));
  for (double n = std::ceil((low - slack) / step); n * step <= high + slack; ++n) {
    const double value = n == 0 ? 0.0 : n * step;  // no minus sign before a zero
    ticks.push_back({value, label_of(value, step, largest)});
  }
  return ticks;
}

std::vector<Tick> choose_log_ticks(double low, double high, int wanted) {
  if (!(low > 0) || !(low < high) || !std::isfinite(high)) return {{low, format_number(low)}};
  const int first = static_cast<int>(std::ceil(std::log10(low) - 1e-9)),
            last = static_cast<int>(std::floor(std::log10(high) + 1e-9));
  std::vector<Tick> ticks;
  const int stride = std::max(1, (last - first + wanted) / std::max(1, wanted));
  for (int power = first; power <= last; power += stride)
    ticks.push_back({std::pow(10.0, power), format_number(std::pow(10.0, power))});
  if (last - first >= 1) return ticks;
  ticks.clear();
  for (int power = first - 1; power <= last + 1; ++power) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double value = factor * std::pow(10.0, power);
      if (value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9))
        ticks.push_back({value, format_number(value)});
    }
  }
  if (ticks.empty()) return choose_ticks(low, high, wanted);
  return ticks;
}

std::string format_number(double value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "none" : value > 0 ? "infinite" : "-infinite";
  const double size = std::abs(value);
  if (size != 0 && (size < 1e-4 || size >= 1e7)) {
    std::string text = fmt::format("{:.3g}", value);
    if (const size_t at = text.find("e-0"); at != std::string::npos) text.erase(at + 2, 1);
    if (const size_t at = text.find("e+0"); at != std::string::npos) text.erase(at + 1, 2);
    return text;
  }
  if (size >= 1000 || value == std::round(value))
    return group_digits(fmt::format("{:.0f}", value == 0 ? 0.0 : value));
  return fmt::format("{:.3g}", value);
}

}  // namespace openwork::draw
