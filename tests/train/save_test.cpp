// Saving: what is written opens again as the same model, dense and gated, whole and as an adapter.
#include "model/save.h"

#include <gtest/gtest.h>

#include "io/json.h"
#include "model/adapter.h"
#include "model/golden.h"
#include "train/initialise.h"
#include "train/run_fixture.h"

namespace openwork {
namespace {

at::Tensor some_ids() {
  return at::arange(24, at::kLong).view({2, 12});
}

class SavedModel : public testing::TestWithParam<const char*> {};

TEST_P(SavedModel, OpensAsItWas) {
  const TestFolder folder;
  const Transformer model = load_model(std::string("tests/data/") + GetParam());
  save_model(folder.path() / "dense", model.config(), model.parameters());
  EXPECT_TRUE(at::equal(load_model(folder.path() / "dense").forward(some_ids()), model.forward(some_ids())));
  const StartingPoint start = put_gates(model, GateKind::kLogprob, 2.5);
  const Transformer gated(start.config, start.parameters);
  save_model(folder.path() / "gated", start.config, start.parameters);
  const Transformer again = load_model(folder.path() / "gated");
  EXPECT_EQ(again.config().gate, GateKind::kLogprob);
  EXPECT_TRUE(at::equal(again.forward(some_ids()), gated.forward(some_ids())));
  EXPECT_FALSE(at::equal(again.forward(some_ids()), model.forward(some_ids())));
  const nlohmann::json config = read_json_file(folder.path() / "gated" / "config.json");
  EXPECT_EQ(config.at("attention_gate"), nlohmann::json({{"kind", "logprob"}, {"version", 1}}));
}

INSTANTIATE_TEST_SUITE_P(Architectures, SavedModel,
                         testing::Values("gpt2", "gpt_neox", "llama", "olmo", "olmo2",
                                         "sparse_gpt2_published"));

TEST(SavedModel, HalfPrecisionKeepsTheGateBiasesWhole) {
  const TestFolder folder;
  StartingPoint start = put_gates(load_model("tests/data/llama"), GateKind::kLogprob, 4.0001);
  save_model(folder.path() / "half", start.config, start.parameters, at::kHalf);
  const Transformer again = load_model(folder.path() / "half");
  for (const auto& [name, tensor] : again.parameters()) {
    if (name.ends_with("gate_bias")) {
      EXPECT_FLOAT_EQ(tensor[0].item<float>(), 4.0001F);
    }
  }
  EXPECT_EQ(open_weights(folder.path() / "half")->at("model.norm.weight").dtype, DType::kF16);
}

class SavedAdapter : public testing::TestWithParam<const char*> {};

TEST_P(SavedAdapter, OpensAsTheModelThatWasTrained) {
  const TestFolder folder;
  const std::string base = std::string("tests/data/") + GetParam();
  StartingPoint start = put_gates(load_model(base), GateKind::kScore, 1.0);
  WeightOptions options;
  options.lora = LoraOptions{3, 6, {"all"}};
  TrainedWeights weights(start.config, start.parameters, options);
  EXPECT_TRUE(at::equal(weights.pass_model().forward(some_ids()),
                        Transformer(start.config, start.parameters).forward(some_ids())));
  at::manual_seed(1);
  for (const TrainedTensor& tensor : weights.tensors())
    weights.master(tensor).add_(0.05 * at::randn(tensor.shape));
  save_adapter(folder.path() / "adapter", weights.config(), *options.lora, weights.export_adapter(), base);
  const Transformer again = load_adapted_model(base, folder.path() / "adapter");
  const at::NoGradGuard no_grad;
  expect_close(again.forward(some_ids()), weights.pass_model().forward(some_ids()).to(at::kDouble), "logits",
               1e-5, 1e-5);
  const Transformer merged(weights.config(), weights.export_parameters());
  expect_close(merged.forward(some_ids()), again.forward(some_ids()).to(at::kDouble), "merged logits", 1e-5,
               1e-5);
  const nlohmann::json config = read_json_file(folder.path() / "adapter" / "adapter_config.json");
  EXPECT_EQ(config.at("peft_type"), "LORA");
  EXPECT_EQ(config.at("attention_gate").at("kind"), "score");
}

INSTANTIATE_TEST_SUITE_P(Architectures, SavedAdapter, testing::Values("gpt2", "gpt_neox", "llama"));

TEST(SavedAdapter, RefusesOneOfAnotherModel) {
  const TestFolder folder;
  StartingPoint start = put_gates(load_model("tests/data/llama"), GateKind::kScore, 1.0);
  WeightOptions options;
  options.lora = LoraOptions{3, 6, {"q_proj"}};
  const TrainedWeights weights(start.config, start.parameters, options);
  save_adapter(folder.path() / "adapter", weights.config(), *options.lora, weights.export_adapter(), "llama");
  EXPECT_THROW(load_adapted_model("tests/data/gpt2", folder.path() / "adapter"), Error);
  EXPECT_THROW(find_lora_targets(start.config, {4, 4, {"c_attn"}}), Error);
}

TEST(DrawnModel, IsTheSameForTheSameSeedAndHasTheRightSpread) {
  const ModelConfig config = read_config_file("models/openwork-8m");
  const Transformer first = draw_model(config, 1), second = draw_model(config, 1),
                    other = draw_model(config, 2);
  for (size_t n = 0; n < first.parameters().size(); ++n) {
    const auto& [name, tensor] = first.parameters()[n];
    EXPECT_TRUE(at::equal(tensor, second.parameters()[n].second)) << name;
    const double spread = tensor.std().item<double>();
    if (name.ends_with("mlp.c_fc.weight")) {
      EXPECT_NEAR(spread, 0.02, 0.001) << name;
    }
    if (name.ends_with("c_proj.weight")) {
      EXPECT_NEAR(spread, 0.02 / 4, 0.0005) << name;
    }
    if (name.ends_with("ln_1.weight")) {
      EXPECT_EQ(tensor.min().item<double>(), 1) << name;
    }
  }
  EXPECT_FALSE(at::equal(first.parameters()[0].second, other.parameters()[0].second));
}

}  // namespace
}  // namespace openwork
