// Blocks of mixed lengths. A step's batch is rows of `context` tokens; row r is cut into blocks of
// lengths[r mod L] tokens, so that every length has its share of the tokens and all tokens are trained on.
// Each length is one call, whose samples are counted over the whole step (`first`), however ranks and passes
// cut it.
//   LengthPlan plan({64, 256, 1024}, 1024);
//   for (const LengthCall& call : plan.calls(first_row, rows)) tokens = plan.cut(rows_of_the_pass, call);
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace openwork {

struct LengthCall {
  int64_t length = 0;
  int64_t row = 0, stride = 1, rows = 0;  // of the pass: row, row + stride, ..., `rows` of them
  int64_t first = 0;                      // index of its first sample among the step's samples of this length
};

class LengthPlan {
 public:
  // No lengths: the context alone. Fails where a length does not divide the context or is named twice.
  LengthPlan(std::vector<int64_t> lengths, int64_t context);

  bool is_mixed() const { return lengths_.size() > 1; }
  // Of a pass over rows [first, first + count) of the step's batch.
  std::vector<LengthCall> calls(int64_t first, int64_t count) const;
  // rows [count, context + 1] of the pass -> the call's samples [samples, length + 1].
  at::Tensor cut(const at::Tensor& rows, const LengthCall& call) const;
  // Causal pairs of one head in a batch of `rows`.
  double pairs(int64_t rows) const;

 private:
  std::vector<int64_t> lengths_;
  int64_t context_;
};

}  // namespace openwork
