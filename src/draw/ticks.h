// Where an axis has its ticks and what they say: multiples of 1, 2 or 5 times a power of ten on a linear
// axis, powers of ten (with some between where there are few) on a logarithmic one.
#pragma once
#include <string>
#include <vector>

namespace openwork::draw {

struct Tick {
  double value = 0;
  std::string label;
};

// About `wanted` ticks within [low, high], at least one where low < high; labels have just the digits they
// need.
std::vector<Tick> choose_ticks(double low, double high, int wanted = 5);

// Ticks of a logarithmic axis, 0 < low < high: powers of ten within, every second or third where they are
// many; also 2 and 5 times where fewer than two powers fall within.
std::vector<Tick> choose_log_ticks(double low, double high, int wanted = 6);

// A number the way ticks and tables of figures write it: 0.25, 1,024, 3.2e-7; shares may be asked for as
// percent.
std::string format_number(double value);

}  // namespace openwork::draw
