// Recomputed layers: the same gradients to the bit, whatever the architecture, gates or adapter, for less
// memory.
#include "train/recompute.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "ops/tensor_memory.h"
#include "train/initialise.h"
#include "train/run_fixture.h"

namespace openwork {
namespace {

struct Gradients {
  at::Tensor loss, flat;
};

Gradients compute_gradients(const StartingPoint& start, WeightOptions options, const at::Tensor& tokens,
                            bool recompute) {
  options.recompute = recompute;
  TrainedWeights weights(start.config, start.parameters, options);
  GateDraw draw;
  draw.seed = 11, draw.first = 3;
  const LossOptions loss_options{.head_penalty = 0.1};
  const PassLoss loss = compute_pass_loss(weights.pass_model(), nullptr,
                                          {tokens, draw, at::scalar_tensor(2.0, at::kDouble)}, loss_options);
  loss.loss.backward();
  weights.collect_gradients();
  return {loss.loss.detach(), weights.gradients().clone()};
}

class RecomputedLayers : public testing::TestWithParam<const char*> {};

TEST_P(RecomputedLayers, GiveTheSameGradientsToTheBit) {
  at::set_num_threads(1);
  const Transformer base = load_model(std::string("tests/data/") + GetParam());
  const at::Tensor tokens = at::arange(34, at::kLong).view({2, 17});
  for (const bool lora : {false, true}) {
    WeightOptions options;
    options.learn_bias = true;
    if (lora) options.lora = LoraOptions{2, 4, {"all"}, {"attention"}};
    const StartingPoint start = put_gates(base, GateKind::kLogprob, 2.0);
    const Gradients plain = compute_gradients(start, options, tokens, false);
    const Gradients again = compute_gradients(start, options, tokens, true);
    EXPECT_TRUE(at::equal(plain.loss, again.loss));
    EXPECT_TRUE(at::equal(plain.flat, again.flat)) << (plain.flat - again.flat).abs().max();
    EXPECT_GT(plain.flat.abs().max().item<double>(), 0);
  }
  const StartingPoint dense = remove_gates(base);
  EXPECT_TRUE(at::equal(compute_gradients(dense, {}, tokens, false).flat,
                        compute_gradients(dense, {}, tokens, true).flat));
}

INSTANTIATE_TEST_SUITE_P(Architectures, RecomputedLayers,
                         testing::Values("gpt2", "gpt_neox", "llama", "olmo2"));

TEST(RecomputedLayers, AreTheModelsOwnWhereAPassIsTapped) {
  at::set_num_threads(1);
  WeightOptions options;
  options.recompute = true;
  const StartingPoint start = put_gates(load_model("tests/data/gpt2"), GateKind::kLogprob, 2.0);
  TrainedWeights weights(start.config, start.parameters, options);
  const at::Tensor tokens = at::arange(34, at::kLong).view({2, 17});
  Taps taps;
  int seen = 0;
  taps.read({Site::kPattern, 0}, [&](const Tensor&) { ++seen; });
  const PassLoss loss = compute_pass_loss(weights.pass_model(), nullptr, {tokens}, {}, &taps);
  loss.loss.backward();
  EXPECT_EQ(seen, 1);
  for (const TrainedTensor& tensor : weights.tensors()) {
    if (tensor.segment == Segment::kDecayed) {
      EXPECT_GT(tensor.leaf.grad().abs().max().item<double>(), 0) << tensor.name;
    }
  }
}

TEST(RecomputedLayers, HoldLessAtTheirPeak) {
  at::set_num_threads(1);
  ModelConfig config = read_config_file("models/openwork-8m");
  config.vocabulary = 64, config.width = 64, config.inner = 256, config.heads = config.kv_heads = 4,
  config.head_size = 16;
  config.layers = 16;
  const StartingPoint start = put_gates(draw_model(config, 1), GateKind::kLogprob, 5.0);
  const at::Tensor tokens = at::arange(4 * 129, at::kLong).view({4, 129}).remainder(64);
  const auto peak_of = [&](bool recompute) {
    return peak_bytes_of([&] { compute_gradients(start, {}, tokens, recompute); });
  };
  const int64_t plain = peak_of(false), recomputed = peak_of(true);
  EXPECT_LT(recomputed, plain / 2) << recomputed << " of " << plain << " bytes";
}

}  // namespace
}  // namespace openwork
