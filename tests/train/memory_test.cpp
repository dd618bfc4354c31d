// What a pass is said to take is near what it takes, by torch's own account.
#include "train/memory.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ops/tensor_memory.h"
#include "train/initialise.h"
#include "train/loss.h"
#include "train/run_fixture.h"

namespace openwork {
namespace {

// A small shape whose logits, taken whole, would outweigh everything else.
ModelConfig wide_vocabulary(int64_t vocabulary, bool tied) {
  ModelConfig config = read_config_file("models/openwork-8m");
  config.vocabulary = vocabulary, config.width = 64, config.inner = 256, config.layers = 4,
  config.tied = tied;
  config.heads = config.kv_heads = 4, config.head_size = 16;
  return config;
}

int64_t measure_pass(const ModelConfig& config, const WeightOptions& options, const LoopOptions& loop,
                     const at::Tensor& tokens) {
  const Transformer base = draw_model(config, 1);
  const StartingPoint start = put_gates(base, GateKind::kIdle, 5.0, 5.0);
  const Transformer dense = move_to(base, options.dtype, at::kCPU);
  TrainedWeights weights(start.config, start.parameters, options);
  GateDraw draw;
  draw.seed = 7;
  const auto step = [&] {
    const PassInputs inputs{tokens, draw, at::scalar_tensor(1.0, at::kDouble)};
    compute_pass_loss(weights.pass_model(), &dense, inputs, loop.loss).loss.backward();
  };
  step();
  return peak_bytes_of(step);
}

TEST(Memory, OfAPassIsNearWhatIsSaid) {
  at::set_num_threads(1);
  for (const int64_t vocabulary : {512, 32768}) {
    const bool tied = vocabulary == 32768;
    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      for (const double distill : {0.0, 1.0}) {
        ModelConfig config = wide_vocabulary(vocabulary, tied);
        LoopOptions loop;
        loop.batch = 8, loop.loss.distill = distill;
        WeightOptions options;
        options.dtype = dtype;
        const at::Tensor tokens = at::arange(8 * 257, at::kLong).remainder(vocabulary).view({8, 257});
        const auto measured = static_cast<double>(measure_pass(config, options, loop, tokens));
        config.gate = GateKind::kIdle;
        const auto said = static_cast<double>(predict_memory(config, options, loop, 256).activations);
        const std::string what =
            fmt::format("vocabulary {}{}, {}, distill {}: {:.1f} MB, said {:.1f}", vocabulary,
                        tied ? ", tied" : "", c10::toString(dtype), distill, measured / 1e6, said / 1e6);
        EXPECT_NEAR(measured, said, 0.25 * said) << what;
      }
    }
  }
}

// The operator keeps slopes for some gates, dtypes and head sizes (ops/arguments.h), padded to its kernels' own size.
TEST(Memory, CountsSlopesWhereTheOperatorKeepsThem) {
  ModelConfig config = wide_vocabulary(512, false);
  LoopOptions loop;
  loop.batch = 8;
  WeightOptions options;
  const auto said = [&](GateKind gate) {
    config.gate = gate;
    return predict_memory(config, options, loop, 256).activations;
  };
  const auto slopes = [&](int64_t head_size, at::ScalarType dtype, const char* device) {
    config.head_size = head_size;
    options.dtype = dtype, options.device = at::Device(device);
    return said(GateKind::kIdle) - said(GateKind::kScore);
  };
  const int64_t rows = 8 * 256 * config.layers * config.heads;
  EXPECT_EQ(slopes(64, at::kBFloat16, "cuda:0"), rows * 64 * 2);
  EXPECT_EQ(slopes(48, at::kBFloat16, "cuda:0"), rows * 64 * 2) << "padded";
  EXPECT_EQ(slopes(16, at::kBFloat16, "cuda:0"), 0) << "no kernel of this size keeps them";
  EXPECT_EQ(slopes(64, at::kFloat, "cuda:0"), 0) << "nor of this dtype";
  EXPECT_EQ(slopes(64, at::kBFloat16, "cpu"), 0);
}

}  // namespace
}  // namespace openwork
