// Rotary positions: tables of cosines and sines for the positions asked for, and turning q or k by them.
#pragma once
#include <ATen/core/Tensor.h>

#include <deque>
#include <mutex>

#include "model/config.h"

namespace openwork {

using at::Tensor;

// Frequencies of the pairs of a head's first rotary_size numbers, double, one per pair. `tokens` matters
// to the kind 'dynamic' alone, whose frequencies change with the length of the text.
std::vector<double> rotary_frequencies(const Rope& rope, int64_t tokens);

// What cosines and sines are multiplied by (yarn; 1 otherwise).
double rotary_magnitude(const Rope& rope);

struct RotaryTable {
  Tensor cosine, sine;  // [T, rotary_size / 2]
};

RotaryTable make_rotary_table(const Rope& rope, int64_t first_position, int64_t tokens,
                              const at::TensorOptions& options);

// Tables of positions from 0 on, made once for each of the last few lengths: passes of training and layers that are run
// again ask for the same ones, and making one copies to the device, for which the host waits. May be asked by several
// threads.
class RotaryTables {
 public:
  RotaryTable find(const Rope& rope, int64_t tokens, const at::TensorOptions& options);

 private:
  static constexpr size_t kMost = 8;
  struct Entry {
    int64_t tokens;
    at::TensorOptions options;
    RotaryTable table;
  };
  std::mutex mutex_;
  std::deque<Entry> entries_;  // the oldest first
};

// x [B, T, H, d] with its first rotary_size numbers turned.
Tensor rotate(const Tensor& x, const RotaryTable& table);

}  // namespace openwork
