// The five architectures and the published Sparse GPT-2 against the reference implementation's numbers.
#include "golden.h"

#include <fmt/format.h>

#include "model/generate.h"
#include "model/load.h"

namespace openwork {
namespace {

class Golden : public testing::TestWithParam<const char*> {
 protected:
  std::filesystem::path folder() const { return std::filesystem::path("tests/data") / GetParam(); }
};

// One pass with everything tapped, as `openwork run --save` makes it.
struct TappedPass {
  explicit TappedPass(const Transformer& model, const Tensor& ids) {
    Taps taps;
    const int64_t layers = model.config().layers;
    attention.resize(static_cast<size_t>(layers));
    hidden.resize(static_cast<size_t>(layers) + 1);
    for (int64_t n = 0; n < layers; ++n) {
      taps.read({Site::kPattern, n}, [this, n](const Tensor& t) { attention[static_cast<size_t>(n)] = t; });
      taps.read({Site::kResidPre, n}, [this, n](const Tensor& t) { hidden[static_cast<size_t>(n)] = t; });
    }
    taps.read({Site::kFinalNormalized, -1}, [this](const Tensor& t) { hidden.back() = t; });
    ForwardOptions options;
    options.taps = &taps;
    logits = model.forward(ids, options);
  }
  Tensor logits;
  std::vector<Tensor> attention, hidden;
};

TEST_P(Golden, LogitsAndLossAgreeOnTheFastPath) {
  const auto golden = read_golden(folder() / "golden.safetensors");
  const Transformer model = load_model(folder());
  const at::NoGradGuard no_grad;
  const Tensor logits = model.forward(golden.at("input_ids"));
  expect_close(logits, golden.at("logits"), "logits");
  expect_close(next_token_loss(logits, golden.at("input_ids")).reshape({1}), golden.at("loss"), "loss");
}

TEST_P(Golden, HiddenStatesAndAttentionsAgree) {
  const auto golden = read_golden(folder() / "golden.safetensors");
  const Transformer model = load_model(folder());
  const at::NoGradGuard no_grad;
  const TappedPass pass(model, golden.at("input_ids"));
  expect_close(pass.logits, golden.at("logits"), "logits");
  for (size_t n = 0; n < pass.attention.size(); ++n) {
    expect_close(pass.attention[n], golden.at(fmt::format("attention.{}", n)),
                 fmt::format("attention.{}", n));
  }
  for (size_t n = 0; n < pass.hidden.size(); ++n) {
    const std::string name = fmt::format("hidden.{}", n);
    if (golden.contains(name)) expect_close(pass.hidden[n], golden.at(name), name);
  }
}

TEST_P(Golden, EveryGradientAgrees) {
  const auto golden = read_golden(folder() / "golden.safetensors");
  const Transformer model = load_model(folder(), {.trainable = true});
  next_token_loss(model.forward(golden.at("input_ids")), golden.at("input_ids")).backward();
  size_t compared = 0, in_golden = 0;
  for (const auto& [name, tensor] : golden) in_golden += name.starts_with("grad.");
  for (const auto& [name, parameter] : model.parameters()) {
    ASSERT_TRUE(parameter.grad().defined()) << name;
    if (!golden.contains("grad." + name)) continue;
    expect_close(parameter.grad(), golden.at("grad." + name), "grad." + name);
    ++compared;
  }
  EXPECT_EQ(compared, in_golden);
}

TEST_P(Golden, GenerationWithTheCacheEqualsWithout) {
  const Transformer model = load_model(folder());
  GenerateOptions options;
  options.tokens = 12;
  const std::vector<int64_t> prompt = {5, 17, 80, 2, 41};
  const std::vector<int64_t> cached = generate(model, prompt, options);
  options.use_cache = false;
  EXPECT_EQ(cached, generate(model, prompt, options));
}

TEST_P(Golden, CachedLogitsEqualWholePassInPieces) {
  const auto golden = read_golden(folder() / "golden.safetensors");
  const Transformer model = load_model(folder());
  const at::NoGradGuard no_grad;
  const Tensor ids = golden.at("input_ids");
  KeyValueCache cache(model.config().layers, ids.size(1));
  ForwardOptions options;
  options.cache = &cache;
  std::vector<Tensor> pieces;
  for (const auto& [begin, length] : std::vector<std::pair<int64_t, int64_t>>{{0, 9}, {9, 1}, {10, 13}}) {
    pieces.push_back(model.forward(ids.narrow(1, begin, length), options));
  }
  expect_close(at::cat(pieces, 1), golden.at("logits"), "logits");
}

INSTANTIATE_TEST_SUITE_P(Architectures, Golden, testing::Values("gpt2", "gpt_neox", "llama", "olmo", "olmo2"),
                         [](const auto& info) { return std::string(info.param); });
INSTANTIATE_TEST_SUITE_P(Published, Golden, testing::Values("sparse_gpt2_published"),
                         [](const auto& info) { return std::string(info.param); });

TEST(SparseGpt2, OpensWithAScoreGateOfBiasZero) {
  const Transformer model = load_model("tests/data/sparse_gpt2_published");
  EXPECT_EQ(model.config().gate, GateKind::kScore);
  EXPECT_EQ(model.config().vocabulary, 128);
  EXPECT_EQ(model.layer(0).gate_bias.abs().sum().item<double>(), 0);
}

}  // namespace
}  // namespace openwork
