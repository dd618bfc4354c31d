// The same golden numbers on a GPU; skips where there is none.
#include <fmt/format.h>

#include "golden.h"
#include "model/generate.h"
#include "model/load.h"
#include "ops/gated_attention.h"

namespace openwork {
namespace {

#define SKIP_WITHOUT_GPU() \
  load_cuda_operators();   \
  if (!at::hasCUDA()) GTEST_SKIP() << "no GPU here"

class OnGpu : public testing::TestWithParam<const char*> {
 protected:
  std::filesystem::path folder() const { return std::filesystem::path("tests/data") / GetParam(); }
};

TEST_P(OnGpu, LogitsLossAndGradientsAgree) {
  SKIP_WITHOUT_GPU();
  const auto golden = read_golden(folder() / "golden.safetensors");
  const Transformer model = load_model(folder(), {.device = at::kCUDA, .trainable = true});
  const Tensor ids = golden.at("input_ids").to(at::kCUDA);
  const Tensor logits = model.forward(ids);
  expect_close(logits, golden.at("logits"), "logits");
  const Tensor loss = next_token_loss(logits, ids);
  expect_close(loss.reshape({1}), golden.at("loss"), "loss");
  loss.backward();
  for (const auto& [name, parameter] : model.parameters()) {
    if (golden.contains("grad." + name))
      expect_close(parameter.grad(), golden.at("grad." + name), "grad." + name);
  }
}

TEST_P(OnGpu, PatternsAgreeAndTheCacheChangesNothing) {
  SKIP_WITHOUT_GPU();
  const auto golden = read_golden(folder() / "golden.safetensors");
  const Transformer model = load_model(folder(), {.device = at::kCUDA});
  Taps taps;
  for (int64_t n = 0; n < model.config().layers; ++n) {
    taps.read({Site::kPattern, n}, [&, n](const Tensor& pattern) {
      const std::string name = fmt::format("attention.{}", n);
      expect_close(pattern, golden.at(name), name);
    });
  }
  ForwardOptions options;
  options.taps = &taps;
  const at::NoGradGuard no_grad;
  model.forward(golden.at("input_ids").to(at::kCUDA), options);
  GenerateOptions with, without;
  with.tokens = without.tokens = 8;
  without.use_cache = false;
  EXPECT_EQ(generate(model, {5, 17, 80, 2, 41}, with), generate(model, {5, 17, 80, 2, 41}, without));
}

TEST_P(OnGpu, Bfloat16StaysNearTheReference) {
  SKIP_WITHOUT_GPU();
  const auto golden = read_golden(folder() / "golden.safetensors");
  const at::NoGradGuard no_grad;
  const Transformer model = load_model(folder(), {.dtype = at::kBFloat16, .device = at::kCUDA});
  const Tensor logits = model.forward(golden.at("input_ids").to(at::kCUDA)).to(at::kCPU, at::kDouble);
  EXPECT_LT((logits - golden.at("logits")).abs().mean().item<double>(),
            0.05 * golden.at("logits").abs().mean().item<double>());
}

// A gated step of generation is a kernel of its own on each device.
TEST(OnGpuGated, GenerationIsTheCpusWithAndWithoutTheCache) {
  SKIP_WITHOUT_GPU();
  GenerateOptions with, without;
  with.tokens = without.tokens = 12;
  without.use_cache = false;
  for (const char* folder :
       {"tests/data/llama_idle", "tests/data/sparse_gpt2_published", "models/openwork-8m-sparse"}) {
    const Transformer here = load_model(folder), there = load_model(folder, {.device = at::kCUDA});
    const std::vector<int64_t> wanted = generate(here, {5, 17, 80, 2, 41}, with);
    EXPECT_EQ(generate(there, {5, 17, 80, 2, 41}, with), wanted) << folder;
    EXPECT_EQ(generate(there, {5, 17, 80, 2, 41}, without), wanted) << folder;
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, OnGpu,
                         testing::Values("gpt2", "gpt_neox", "llama", "olmo", "olmo2",
                                         "sparse_gpt2_published"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace openwork
