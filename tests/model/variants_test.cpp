// What configurations and files may ask for beyond the five plain architectures: activations, biases, grouped
// heads, rotary scalings, old keys and names, shards, pickles and GGUF. The models of tests/data/variants and
// their golden numbers come from scripts/make_variant_fixtures.py.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "golden.h"
#include "model/architecture.h"
#include "model/generate.h"
#include "model/load.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

class Variant : public testing::TestWithParam<const char*> {
 protected:
  fs::path folder() const { return fs::path("tests/data/variants") / GetParam(); }

  // The folder, as people name a model; a GGUF file is named itself.
  fs::path weights() const {
    const fs::path gguf = folder() / "model.gguf";
    return fs::exists(gguf) ? gguf : folder();
  }

  std::map<std::string, Tensor> golden() const { return read_golden(folder() / "golden.safetensors"); }
};

// The whole of what a Hugging Face model's golden file holds; of a GGUF file it is logits and loss.
class FullVariant : public Variant {};

TEST_P(Variant, LogitsAndLossAgree) {
  const auto expected = golden();
  const Transformer model = load_model(weights());
  const at::NoGradGuard no_grad;
  const Tensor logits = model.forward(expected.at("input_ids"));
  expect_close(logits, expected.at("logits"), "logits");
  expect_close(next_token_loss(logits, expected.at("input_ids")).reshape({1}), expected.at("loss"), "loss");
}

TEST_P(Variant, GenerationWithTheCacheEqualsWithout) {
  const Transformer model = load_model(weights());
  const Tensor ids = golden().at("input_ids")[0];
  const std::vector<int64_t> prompt = {ids[0].item<int64_t>(), ids[1].item<int64_t>(),
                                       ids[2].item<int64_t>()};
  // Dynamic frequencies change once the text outgrows the original context, and cached keys do not.
  const Rope& rope = model.config().rope;
  const int64_t room = rope.kind == "dynamic" ? rope.original_context : model.config().context;
  GenerateOptions options;
  options.tokens = std::min<int64_t>(12, room - static_cast<int64_t>(prompt.size()));
  const std::vector<int64_t> cached = generate(model, prompt, options);
  options.use_cache = false;
  EXPECT_EQ(cached, generate(model, prompt, options));
  EXPECT_EQ(static_cast<int64_t>(cached.size()), options.tokens);
}

TEST_P(FullVariant, AttentionsAndHiddenStatesAgree) {
  const auto expected = golden();
  const Transformer model = load_model(weights());
  const int64_t layers = model.config().layers;
  std::map<std::string, Tensor> seen;
  Taps taps;
  const auto keep = [&](const std::string& name) {
    return [&, name](const Tensor& tensor) { seen[name] = tensor; };
  };
  for (int64_t n = 0; n < layers; ++n) {
    taps.read({Site::kPattern, n}, keep(fmt::format("attention.{}", n)));
    taps.read({Site::kResidPre, n}, keep(fmt::format("hidden.{}", n)));
  }
  taps.read({Site::kFinalNormalized, -1}, keep(fmt::format("hidden.{}", layers)));
  ForwardOptions options;
  options.taps = &taps;
  const at::NoGradGuard no_grad;
  expect_close(model.forward(expected.at("input_ids"), options), expected.at("logits"), "logits");
  ASSERT_EQ(static_cast<int64_t>(seen.size()), 2 * layers + 1);
  for (const auto& [name, tensor] : seen) expect_close(tensor, expected.at(name), name);
}

TEST_P(FullVariant, EveryGradientAgrees) {
  const auto expected = golden();
  const Transformer model = load_model(weights(), {.trainable = true});
  next_token_loss(model.forward(expected.at("input_ids")), expected.at("input_ids")).backward();
  const auto wanted = std::count_if(expected.begin(), expected.end(),
                                    [](const auto& entry) { return entry.first.starts_with("grad."); });
  int64_t compared = 0;
  for (const auto& [name, parameter] : model.parameters()) {
    ASSERT_TRUE(parameter.grad().defined()) << name;
    const auto gradient = expected.find("grad." + name);
    if (gradient == expected.end()) continue;  // some files keep the first layer's alone
    expect_close(parameter.grad(), gradient->second, "grad." + name);
    ++compared;
  }
  EXPECT_EQ(compared, wanted);
  EXPECT_GT(compared, 0);
}

constexpr const char* kFull[] = {
    "gpt2_options",
    "gpt2_gelu",
    "gpt2_quick_gelu",
    "gpt2_silu",
    "gpt2_pickle",
    "gpt2_first_published",
    "gpt2_shards_gelu_fast",
    "gpt_neox_sequential",
    "gpt_neox_pythia",
    "gpt_neox_untied",
    "llama_biases",
    "llama_linear",
    "llama_dynamic",
    "llama_llama3",
    "llama_yarn",
    "llama_yarn_scaled",
    "llama_yarn_attention_factor",
    "olmo_clipped",
    "olmo2_grouped",
};

constexpr const char* kGguf[] = {
    "gguf_gpt2",         "gguf_gpt2_untied",  "gguf_gptneox",    "gguf_gptneox_sequential",
    "gguf_llama_biases", "gguf_llama_llama3", "gguf_llama_yarn", "gguf_llama_q8_0",
    "gguf_olmo",         "gguf_olmo2",
};

nlohmann::json small_llama(nlohmann::json rotary) {
  nlohmann::json config = {{"model_type", "llama"},        {"num_hidden_layers", 1},
                           {"num_attention_heads", 2},     {"hidden_size", 16},
                           {"intermediate_size", 20},      {"vocab_size", 61},
                           {"max_position_embeddings", 64}};
  config.update(rotary);
  return config;
}

// The expected values are what transformers' configuration classes make of the same keys.
TEST(RotarySettings, RopeScalingWinsOverRopeParameters) {
  const nlohmann::json rotary = {{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 500.0}}},
                                 {"rope_scaling", {{"type", "linear"}, {"factor", 4.0}}},
                                 {"rope_theta", 700.0}};
  const Rope rope = read_model_config(small_llama(rotary), "config.json").rope;
  EXPECT_EQ(rope.kind, "linear");
  EXPECT_EQ(rope.factor, 4.0);
  EXPECT_EQ(rope.theta, 700.0);
}

TEST(RotarySettings, AnEmptyRopeScalingIsNone) {
  const nlohmann::json rotary = {{"rope_parameters", {{"rope_type", "linear"}, {"factor", 3.0}}},
                                 {"rope_scaling", nlohmann::json::object()}};
  EXPECT_EQ(read_model_config(small_llama(rotary), "config.json").rope.factor, 3.0);
}

TEST(RotarySettings, YarnWithoutAFactorStretchesToTheContext) {
  const nlohmann::json rotary = {
      {"rope_parameters",
       {{"rope_type", "yarn"}, {"factor", nullptr}, {"original_max_position_embeddings", 16}}}};
  EXPECT_EQ(read_model_config(small_llama(rotary), "config.json").rope.factor, 4.0);
}

TEST(RotarySettings, TheOriginalContextAtTheTopWins) {
  const nlohmann::json rotary = {
      {"original_max_position_embeddings", 32},
      {"rope_parameters",
       {{"rope_type", "yarn"}, {"factor", 2.0}, {"original_max_position_embeddings", 16}}}};
  EXPECT_EQ(read_model_config(small_llama(rotary), "config.json").rope.original_context, 32);
}

TEST(RotarySettings, DynamicReadsTextsLongerThanItWasTrainedFor) {
  const nlohmann::json rotary = {
      {"rope_parameters",
       {{"rope_type", "dynamic"}, {"factor", 2.5}, {"original_max_position_embeddings", 16}}}};
  const ModelConfig config = read_model_config(small_llama(rotary), "config.json");
  EXPECT_EQ(config.rope.original_context, 64);
  EXPECT_EQ(config.context, 160);
}

TEST(RotarySettings, GptNeoxGoesByItsOwnOldKeys) {
  const auto read = [](const nlohmann::json& rotary) {
    nlohmann::json config = small_llama(rotary);
    config["model_type"] = "gpt_neox", config["hidden_size"] = 32;
    const Rope rope = read_model_config(config, "config.json").rope;
    return std::pair(rope.rotary_size, rope.theta);
  };
  using Pair = std::pair<int64_t, double>;
  EXPECT_EQ(read({{"rotary_pct", 0.5}, {"partial_rotary_factor", 1.0}}), Pair(8, 10000));
  EXPECT_EQ(read({{"partial_rotary_factor", 1.0}}), Pair(4, 10000));
  EXPECT_EQ(read({{"rotary_emb_base", 500}, {"rope_theta", 700.0}}), Pair(4, 500));
  EXPECT_EQ(read({{"rope_theta", 700.0}}), Pair(4, 10000));
  EXPECT_EQ(read({{"rope_parameters", {{"rope_theta", 900.0}, {"partial_rotary_factor", 1.0}}},
                  {"rotary_pct", 0.5},
                  {"rotary_emb_base", 500}}),
            Pair(16, 900));
}

// As llama.cpp reads them.
TEST(RotarySettings, AGgufFilesOldScaleLinearIsALinearFactor) {
  const auto read = [](const nlohmann::json& more) {
    nlohmann::json metadata = {{"general.architecture", "llama"}, {"llama.block_count", 1},
                               {"llama.attention.head_count", 2}, {"llama.embedding_length", 16},
                               {"llama.feed_forward_length", 20}, {"llama.vocab_size", 61},
                               {"llama.context_length", 64}};
    if (!more.is_null()) metadata.update(more);
    const Rope rope = read_model_config(config_from_gguf(metadata, "model.gguf"), "model.gguf").rope;
    return std::pair(rope.kind, rope.factor);
  };
  using Pair = std::pair<std::string, double>;
  EXPECT_EQ(read({{"llama.rope.scale_linear", 4.0}}), Pair("linear", 4));
  EXPECT_EQ(read({{"llama.rope.scale_linear", 0.0}}), Pair("default", 1));
  EXPECT_EQ(read({{"llama.rope.scale_linear", 4.0}, {"llama.rope.scaling.factor", 2.0}}), Pair("linear", 2));
  EXPECT_EQ(read({}), Pair("default", 1));
}

const auto kName = [](const testing::TestParamInfo<const char*>& info) { return std::string(info.param); };

INSTANTIATE_TEST_SUITE_P(HuggingFace, Variant, testing::ValuesIn(kFull), kName);
INSTANTIATE_TEST_SUITE_P(Gguf, Variant, testing::ValuesIn(kGguf), kName);
INSTANTIATE_TEST_SUITE_P(HuggingFace, FullVariant, testing::ValuesIn(kFull), kName);

}  // namespace
}  // namespace openwork
