// Recorded work on a GPU (ops/recording.h): it computes when it is played and not before, over what is in its memory
// then, with gates of the seed it is given.
#include "ops/recording.h"

#include "ops/cuda_cases.h"

namespace openwork {
namespace {

using at::Tensor;

class CudaRecording : public OnGpu {
 protected:
  std::unique_ptr<Recorder> recorder() const { return make_recorder(gpu_); }
};

TEST_F(CudaRecording, ComputesWhenItIsPlayed) {
  const auto floats = at::TensorOptions().device(gpu_);
  const Tensor x = at::ones({1000}, floats), sum = at::zeros({}, floats);
  sum.add_((x * x).sum()), sum.zero_();
  const auto maker = recorder();
  const auto recording = maker->record([&] { sum.add_((x * x).sum()); });
  EXPECT_EQ(sum.item<double>(), 0);
  recording->play();
  EXPECT_EQ(sum.item<double>(), 1000);
  x.fill_(2);
  recording->play(), recording->play();
  EXPECT_EQ(sum.item<double>(), 9000);
}

TEST_F(CudaRecording, ThatWaitsForTheDeviceIsRefusedAndTheDeviceGoesOn) {
  const Tensor x = at::ones({10}, at::TensorOptions().device(gpu_));
  const auto maker = recorder();
  EXPECT_THROW(maker->record([&] { x.sum().item<double>(); }), c10::Error);
  EXPECT_EQ(x.sum().item<double>(), 10);
  const auto recording = maker->record([&] { x.mul_(3); });
  recording->play();
  EXPECT_EQ(x.sum().item<double>(), 30);
}

TEST_F(CudaRecording, DrawsTheGatesOfTheSeedItIsGiven) {
  for (const auto gate : {kGateScore, kGateLogProb, kGateIdle}) {
    for (const auto& [d, dtype] :
         {std::pair{64, at::kBFloat16}, {128, at::kHalf}, {80, at::kBFloat16}, {32, at::kFloat}}) {
      AttentionCase of{2, 6, 3, 203, d, dtype};
      set_gate(of, gate);
      of.seed = 7;
      const AttentionInputs inputs = make_inputs(of).to(gpu_);
      run_operator(of, inputs);
      AttentionGradients seen;
      const auto maker = recorder();
      const auto recording = maker->record([&] { seen = run_operator(of, inputs); });
      for (const int64_t seed : {7, 8, -9}) {
        recording->play({{7, seed}});
        AttentionCase other = of;
        other.seed = seed;
        const AttentionGradients wanted = run_operator(other, inputs);
        EXPECT_TRUE(seen.result.active.equal(wanted.result.active)) << describe(of) << " seed " << seed;
        EXPECT_TRUE(seen.result.out.equal(wanted.result.out)) << describe(of) << " seed " << seed;
        EXPECT_TRUE(seen.k.equal(wanted.k)) << describe(of) << " seed " << seed;
        EXPECT_TRUE(seen.v.equal(wanted.v)) << describe(of) << " seed " << seed;
        EXPECT_TRUE(seen.bias.allclose(wanted.bias, 1e-3, 1e-3)) << describe(of) << " seed " << seed;
        EXPECT_LE((seen.q - wanted.q).abs().max().item<double>(),
                  0.01 * wanted.q.abs().max().item<double>())  // its sums have no fixed order
            << describe(of) << " seed " << seed;
      }
    }
  }
}

TEST_F(CudaRecording, LeavesOtherSeedsAsTheyWere) {
  AttentionCase of{1, 4, 4, 130, 64, at::kBFloat16};
  of.seed = 7;
  const AttentionInputs inputs = make_inputs(of).to(gpu_);
  const Tensor wanted = run_operator(of, inputs).result.active;
  AttentionGradients seen;
  const auto maker = recorder();
  const auto recording = maker->record([&] { seen = run_operator(of, inputs); });
  recording->play({{8, 9}});
  EXPECT_TRUE(seen.result.active.equal(wanted));
}

}  // namespace
}  // namespace openwork
