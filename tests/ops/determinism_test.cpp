// The same bits whatever the number of threads, however backward was shared out, and however many edges a
// tile has: work that adds nothing may be left out, but may not change what is added.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "ops/cases.h"

namespace openwork {
namespace {

using at::Tensor;

// Restores the number of threads when a test is done.
class ThreadCount {
 public:
  ~ThreadCount() { at::set_num_threads(before_); }

 private:
  int before_ = at::get_num_threads();
};

void expect_same_bits(const AttentionGradients& seen, const AttentionGradients& wanted, int threads) {
  EXPECT_TRUE(seen.result.active.equal(wanted.result.active));
  const auto seen_results = named_results(seen), wanted_results = named_results(wanted);
  for (size_t n = 0; n < seen_results.size(); ++n) {
    EXPECT_TRUE(seen_results[n].value.equal(wanted_results[n].value))
        << seen_results[n].name << ", " << threads << " threads";
  }
}

// One thread walks whole heads; eight, with two key/value heads to share, take backward's two rounds.
TEST(Determinism, ThreadsDoNotChangeABit) {
  const ThreadCount restore;
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
    for (const auto gate : kAllGates) {
      for (const bool sampled : {false, true}) {
        AttentionCase of;
        of.B = 1, of.H = 4, of.Hkv = 2, of.T = 333, of.d = 40, of.dtype = dtype;
        set_gate(of, gate);
        if (sampled) of.seed = 99;
        SCOPED_TRACE(describe(of));
        const AttentionInputs inputs = make_inputs(of);
        at::set_num_threads(1);
        const AttentionGradients wanted = run_operator(of, inputs);
        for (const int threads : {2, 3, 8}) {
          at::set_num_threads(threads);
          expect_same_bits(run_operator(of, inputs), wanted, threads);
        }
      }
    }
  }
}

TEST(Determinism, BatchesGiveTheSameBitsAsTheirSamples) {
  AttentionCase of;
  of.B = 3, of.H = 2, of.Hkv = 1, of.T = 140, of.d = 64, of.seed = 8;
  set_gate(of, kGateIdle);
  const AttentionInputs inputs = make_inputs(of);
  const AttentionGradients whole = run_operator(of, inputs);
  for (int64_t b = 0; b < of.B; ++b) {
    const auto sample = [&](const Tensor& tensor) { return tensor.narrow(0, b, 1); };
    AttentionCase one = of;
    one.first = b;
    const AttentionGradients part =
        run_operator(one, {sample(inputs.q), sample(inputs.k), sample(inputs.v), inputs.bias,
                           sample(inputs.grad_out), sample(inputs.grad_penalty), inputs.idle});
    EXPECT_TRUE(part.q.equal(sample(whole.q)));
    EXPECT_TRUE(part.k.equal(sample(whole.k)));
    EXPECT_TRUE(part.v.equal(sample(whole.v)));
  }
}

// Queries of 0 have scores of 0, gates exactly as the bias says, and P = 1 / (i + 1): a head whose bias lets
// only short rows open makes most tiles empty and one sparse, and the answer is known in closed form.
TEST(Determinism, EmptyAndSparseTilesAreSkippedWithoutATrace) {
  const int64_t T = 300, open_rows = 20, d = 16;
  const Tensor zeros = at::zeros({1, 1, T, d}, at::kDouble);
  AttentionCase of;
  of.T = T, of.d = d, of.dtype = at::kDouble;
  const Tensor v = make_inputs(of).v;
  const Tensor bias = at::full({1}, std::log(static_cast<double>(open_rows) + 0.5), at::kDouble);
  const auto result = gated_attention(zeros, zeros, v, bias, std::nullopt, kGateLogProb);
  EXPECT_EQ(result.active.item<int64_t>(), open_rows * (open_rows + 1) / 2);
  const Tensor means = v.cumsum(2) / at::arange(1, T + 1, at::kDouble).view({T, 1});
  EXPECT_LE(relative_error(result.out.narrow(2, 0, open_rows), means.narrow(2, 0, open_rows)), 1e-12);
  EXPECT_EQ(result.out.narrow(2, open_rows, T - open_rows).abs().max().item<double>(), 0);
}

}  // namespace
}  // namespace openwork
