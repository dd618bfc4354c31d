// Gated attention beside dense attention and beside its own plain form, timed in one run: time forward and
// forward with backward, peak memory, error against float64. `openwork bench attention` prints it.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace openwork {

struct AttentionShape {
  int64_t B = 1, H = 1, T = 1, d = 1;
  std::string name() const;  // "B16 H12 T1024 d64"
};

struct AttentionBenchOptions {
  at::Device device = at::kCPU;
  at::ScalarType dtype = at::kFloat;
  std::optional<AttentionShape> shape;  // instead of the bench's own
  bool long_sequences = false;          // T up to 16,384 on a GPU, 4,096 on a CPU
  int repeats = 5;                      // the median counts
};

// One way of doing attention at one shape. Times are -1 where the way was not run (too much memory, or a
// backward pass that means nothing).
struct AttentionBenchRow {
  std::string shape;  // "B16 H12 T1024 d64"
  std::string way;    // "dense", "plain score sampled", "openwork score sampled", ...
  double forward_ms = -1;
  double forward_backward_ms = -1;
  double forward_ratio = -1;  // to dense, timed in turns with this way
  double forward_backward_ratio = -1;
  double peak_megabytes = -1;  // beyond inputs, forward and backward
  double error = -1;           // of out, |out - float64| / |float64|, same rounded inputs
  double open_share = 1;       // of the causal edges
};

// Calls `visit` with each row as it is measured; returns all of them.
std::vector<AttentionBenchRow> bench_attention(const AttentionBenchOptions& options,
                                               const std::function<void(const AttentionBenchRow&)>& visit);

}  // namespace openwork
