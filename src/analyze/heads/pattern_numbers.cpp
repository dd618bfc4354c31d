#include "analyze/heads/pattern_numbers.h"

#include <algorithm>
#include <vector>

namespace openwork {
namespace {

// What one row says; `row` has i + 1 keys.
struct RowNumbers {
  double sum = 0, local = 0, value_mass = 0, largest = 0, entropy = 0, kept = 0, strong = 0;
  double spread = 0;         // share of its keys above 1/(2(i+1))
  double spread_shares = 0;  // the same of the normalised row, so that little mass may be spread too
};

RowNumbers measure_row(const HeadPattern& pattern, int64_t i) {
  const float* row = pattern.values + i * pattern.tokens;
  const float* gate = pattern.gate ? pattern.gate + i * pattern.tokens : nullptr;
  const double even = 1.0 / (2.0 * static_cast<double>(i + 1));
  RowNumbers numbers;
  for (int64_t j = 0; j <= i; ++j) {
    const double a = row[j];
    numbers.sum += a;
    if (j >= i - kLocalReach) numbers.local += a;
    if (pattern.value_norms) numbers.value_mass += a * pattern.value_norms[j];
    numbers.largest = std::max(numbers.largest, a);
    numbers.kept += gate ? gate[j] != 0 : 1;
    numbers.strong += j < i && a > kStrongCell;
    numbers.spread += a > even;
  }
  numbers.spread /= static_cast<double>(i + 1);
  if (numbers.sum <= 0) return numbers;
  for (int64_t j = 0; j <= i; ++j) {
    const double share = row[j] / numbers.sum;
    if (share > 0) numbers.entropy -= share * std::log(share);
    numbers.spread_shares += share > even;
  }
  numbers.entropy /= std::log(static_cast<double>(i + 1));
  numbers.spread_shares /= static_cast<double>(i + 1);
  return numbers;
}

// The largest mean of a column j >= 1 below the diagonal, over enough rows; 0 where no column has them.
double strongest_column(const HeadPattern& pattern) {
  const int64_t T = pattern.tokens;
  std::vector<double> sums(static_cast<size_t>(T), 0.0);
  for (int64_t i = 1; i < T; ++i) {
    for (int64_t j = 1; j < i; ++j) sums[static_cast<size_t>(j)] += pattern.values[i * T + j];
  }
  double strongest = 0;
  for (int64_t j = 1; j < T; ++j) {
    const int64_t rows = T - 1 - j;
    if (rows < kColumnRows || 8 * rows < T) break;
    strongest = std::max(strongest, sums[static_cast<size_t>(j)] / static_cast<double>(rows));
  }
  return strongest;
}

}  // namespace

HeadNumbers measure_pattern(const HeadPattern& pattern) {
  HeadNumbers numbers;
  const int64_t T = pattern.tokens;
  if (T < 2) return numbers;
  RowNumbers total;
  double self = 0, previous = 0, sink = 0, spread_row = 0, row_mass = 0, long_rows = 0, spread_rows = 0,
         full_rows = 0;
  for (int64_t i = 1; i < T; ++i) {
    const float* row = pattern.values + i * T;
    const RowNumbers one = measure_row(pattern, i);
    self += row[i], previous += row[i - 1], sink += row[0];
    total.sum += one.sum, total.local += one.local, total.value_mass += one.value_mass,
        total.largest += one.largest;
    total.kept += one.kept, total.strong += one.strong, total.entropy += one.entropy;
    full_rows += one.sum > 0;
    spread_row = std::max(spread_row, one.spread);
    if (i + 1 < kSpreadRowKeys) continue;
    ++long_rows;
    if (one.spread_shares < kSpreadShare) continue;
    ++spread_rows, row_mass += one.sum;
  }
  const auto rows = static_cast<double>(T - 1), pairs = static_cast<double>(T * (T + 1) / 2 - 1);
  numbers[Statistic::kMass] = total.sum / rows;
  numbers[Statistic::kSelf] = self / rows;
  numbers[Statistic::kPrevious] = previous / rows;
  numbers[Statistic::kSink] = sink / rows;
  numbers[Statistic::kColumn] = strongest_column(pattern);
  numbers[Statistic::kSpreadRow] = spread_row;
  numbers[Statistic::kLocal] = total.local / rows;
  if (full_rows > 0) numbers[Statistic::kEntropy] = total.entropy / full_rows;
  numbers[Statistic::kPeak] = total.largest / rows;
  numbers[Statistic::kStrong] = total.strong;
  numbers[Statistic::kKept] = total.kept;
  numbers[Statistic::kDensity] = total.kept / pairs;
  if (pattern.value_norms) numbers[Statistic::kValueMass] = total.value_mass / rows;
  numbers[Statistic::kRowMass] = row_mass / rows;
  numbers[Statistic::kRowShare] = long_rows > 0 ? spread_rows / long_rows : 0;
  return numbers;
}

void measure_repeat(const HeadPattern& pattern, int64_t before, int64_t length, HeadNumbers& numbers) {
  double induction = 0, duplicate = 0, mass = 0;
  for (int64_t i = before + length; i < before + 2 * length; ++i) {
    const float* row = pattern.values + i * pattern.tokens;
    induction += row[i - length + 1];
    duplicate += row[i - length];
    for (int64_t j = 0; j <= i; ++j) mass += row[j];
  }
  const auto rows = static_cast<double>(length);
  numbers[Statistic::kInduction] = induction / rows;
  numbers[Statistic::kDuplicate] = duplicate / rows;
  numbers[Statistic::kRepeatMass] = mass / rows;
}

double uniform_local_mass(int64_t tokens) {
  if (tokens < 2) return std::numeric_limits<double>::quiet_NaN();
  double sum = 0;
  for (int64_t i = 1; i < tokens; ++i) {
    sum += static_cast<double>(std::min(kLocalReach, i) + 1) / static_cast<double>(i + 1);
  }
  return sum / static_cast<double>(tokens - 1);
}

}  // namespace openwork
