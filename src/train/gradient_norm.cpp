#include "train/gradient_norm.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "ops/threads.h"

namespace openwork {
namespace {

constexpr int64_t kBlock = ShardPlan::kBlock;

int64_t block_count(int64_t numbers) {
  return (numbers + kBlock - 1) / kBlock;
}

// In eight sums side by side, whose order is said here and by no compiler. A square of a float32 is exact.
// Counts are multiples of eight: tensors begin at multiples of 64 numbers (weight_plan.cpp).
double sum_squares(const float* numbers, int64_t count) {
  std::array<double, 8> sums = {};
  for (int64_t n = 0; n < count; n += 8) {
    for (size_t lane = 0; lane < 8; ++lane) {
      const double x = numbers[n + static_cast<int64_t>(lane)];
      sums[lane] += x * x;
    }
  }
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

// sums [blocks] of the numbers' blocks.
void sum_blocks(const Tensor& numbers, const Tensor& sums) {
  if (!numbers.is_cpu()) {
    const int64_t whole = numbers.numel() / kBlock * kBlock;
    const auto square = [](const Tensor& rows) {  // in float32, which needs no copy of the numbers
      return at::linalg_vector_norm(rows, 2, at::IntArrayRef{1}).to(at::kDouble).square();
    };
    if (whole > 0)
      sums.narrow(0, 0, whole / kBlock).copy_(square(numbers.narrow(0, 0, whole).view({-1, kBlock})));
    if (whole < numbers.numel())
      sums.narrow(0, whole / kBlock, 1)
          .copy_(square(numbers.narrow(0, whole, numbers.numel() - whole).view({1, -1})));
    return;
  }
  const float* const from = numbers.const_data_ptr<float>();
  double* const to = sums.data_ptr<double>();
  share_range(sums.numel(), 64, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n)
      to[n] = sum_squares(from + n * kBlock, std::min(kBlock, numbers.numel() - n * kBlock));
  });
}

// One after another on the CPU: at::sum cuts by the number of threads.
Tensor add_up(const Tensor& sums) {
  if (!sums.is_cpu()) return sums.sum();
  double total = 0;
  const double* const numbers = sums.const_data_ptr<double>();
  for (int64_t n = 0; n < sums.numel(); ++n) total += numbers[n];
  return at::scalar_tensor(total, at::kDouble);
}

}  // namespace

Tensor gradient_norm(const TrainedWeights& weights, Ranks* ranks) {
  const at::NoGradGuard no_grad;
  const ShardPlan& shards = weights.plan().shards;
  const Tensor gates = weights.gates_of(weights.gradients());
  const int64_t blocks = block_count(shards.numbers()), gate_blocks = block_count(gates.numel());
  const Tensor sums = at::zeros({blocks + gate_blocks}, gates.options().dtype(at::kDouble));
  for (const ShardPlan::Chunk& chunk : shards.chunks()) {
    const int64_t begin = shards.own_begin(chunk), count = std::min(chunk.piece, shards.numbers() - begin);
    if (count <= 0) continue;
    sum_blocks(weights.own_piece(weights.gradients(), chunk).narrow(0, 0, count),
               sums.narrow(0, begin / kBlock, block_count(count)));
  }
  if (ranks && ranks->count() > 1 && blocks > 0) ranks->sum(sums.narrow(0, 0, blocks));  // with zeros: exact
  if (gate_blocks > 0) sum_blocks(gates, sums.narrow(0, blocks, gate_blocks));
  return add_up(sums).sqrt().to(at::kFloat);
}

}  // namespace openwork
