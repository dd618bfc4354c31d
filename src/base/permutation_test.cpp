#include "base/permutation_test.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/philox.h"

namespace openwork {

double sign_flip_test(std::span<const double> differences, uint64_t seed, int64_t draws) {
  const size_t count = differences.size();
  double sum = 0, size = 0;
  for (const double difference : differences) sum += difference, size += std::abs(difference);
  // Draws that equal the observed sum but for rounding are hits too.
  const double observed = std::abs(sum) - 1e-12 * size;
  const uint64_t blocks = (count + 127) / 128;  // one counter gives the signs of 128 differences
  int64_t hits = 0;
  for (int64_t draw = 0; draw < draws; ++draw) {
    double flipped = 0;
    for (size_t n = 0; n < count;) {
      const Philox4 bits = philox(seed, static_cast<uint64_t>(draw) * blocks + n / 128);
      for (size_t k = 0; k < 128 && n < count; ++k, ++n) {
        flipped += (bits.word[k / 32] >> (k % 32)) & 1 ? differences[n] : -differences[n];
      }
    }
    hits += std::abs(flipped) >= observed;
  }
  return (1.0 + static_cast<double>(hits)) / (1.0 + static_cast<double>(draws));
}

std::vector<double> correct_by_holm(std::span<const double> p_values) {
  const size_t count = p_values.size();
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p_values[a] < p_values[b]; });
  std::vector<double> corrected(count);
  double largest = 0;
  for (size_t rank = 0; rank < count; ++rank) {
    largest = std::max(largest, std::min(1.0, p_values[order[rank]] * static_cast<double>(count - rank)));
    corrected[order[rank]] = largest;
  }
  return corrected;
}

}  // namespace openwork
