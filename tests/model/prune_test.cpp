// Models without some of their heads, of every architecture: what they compute, what they show, what is saved.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "golden.h"
#include "io/json.h"
#include "io/test_files.h"
#include "model/gated_model.h"
#include "model/generate.h"
#include "model/kept_heads.h"
#include "model/prune.h"

namespace openwork {
namespace {

using Kept = std::vector<std::vector<int64_t>>;

Tensor prune_ids() {
  const Tensor n = at::arange(2 * 21, at::kLong);
  return ((n * n * 5 + n * 29) % 97).view({2, 21});
}

// Even and uneven groups (llama's are pairs), one head, and a layer without any.
const Kept kSome = {{0, 1, 3}, {2}, {0, 2, 3}}, kEmptyLayer = {{1, 2}, {}, {0, 1, 2, 3}};

std::filesystem::path pruned_source(const char* name) {
  return std::filesystem::path("tests/data") / name;
}

// The model with the gates of every head that is not kept closed by its bias.
Transformer close_others(const Transformer& model, const Kept& kept) {
  NamedTensors parameters;
  for (const ParameterSpec& spec :
       list_parameters(architecture_named(model.config().architecture, "test"), model.config())) {
    Tensor tensor = model.parameters()[parameters.size()].second.clone();
    if (spec.role == Role::kGateBias) {
      for (int64_t head = 0; head < model.config().heads; ++head) {
        const auto& layer = kept[static_cast<size_t>(spec.layer)];
        if (!std::binary_search(layer.begin(), layer.end(), head)) tensor[head] = -50;
      }
    }
    parameters.emplace_back(spec.name, tensor);
  }
  return {model.config(), std::move(parameters)};
}

// The model's logits with the z of every head that is not kept replaced by 0.
Tensor ablate_others(const Transformer& model, const Kept& kept) {
  Taps taps;
  for (int64_t layer = 0; layer < model.config().layers; ++layer) {
    taps.replace({Site::kZ, layer}, [&, layer](const Tensor& z) {
      Tensor left = at::zeros_like(z);
      for (const int64_t head : kept[static_cast<size_t>(layer)])
        left.select(2, head).copy_(z.select(2, head));
      return left;
    });
  }
  ForwardOptions options;
  options.taps = &taps;
  return model.forward(prune_ids(), options);
}

class PrunedModel : public testing::TestWithParam<const char*> {};

TEST_P(PrunedModel, RemovingHeadsThatNeverOpenChangesNothing) {
  const at::NoGradGuard no_grad;
  for (const GateKind gate : {GateKind::kScore, GateKind::kLogprob, GateKind::kIdle}) {
    for (const Kept& kept : {kSome, kEmptyLayer}) {
      const Transformer closed = close_others(load_gated(pruned_source(GetParam()), gate), kept);
      const Transformer pruned = prune_heads(closed, kept);
      const Tensor wanted = closed.forward(prune_ids()).to(at::kDouble);
      expect_close(pruned.forward(prune_ids()), wanted, "logits", 1e-5, 0);
      Taps taps;
      taps.read({Site::kResidPost, 1}, [](const Tensor&) {});
      ForwardOptions tapped;
      tapped.taps = &taps;
      expect_close(pruned.forward(prune_ids(), tapped), wanted, "tapped logits", 1e-5, 0);
    }
  }
}

TEST_P(PrunedModel, IsTheDenseModelWithThoseHeadsAtZero) {
  const at::NoGradGuard no_grad;
  const Transformer dense = load_model(pruned_source(GetParam()));
  for (const Kept& kept : {kSome, kEmptyLayer}) {
    const Transformer pruned = prune_heads(dense, kept);
    expect_close(pruned.forward(prune_ids()), ablate_others(dense, kept).to(at::kDouble), "logits", 1e-5, 0);
    EXPECT_EQ(count_kept_heads(pruned.config()), kept == kSome ? 7 : 6);
  }
}

// What is left of such a layer is its output's bias, behind the norm where norms come after (OLMo-2).
TEST_P(PrunedModel, ALayerWithoutHeadsAddsItsBiasAsBefore) {
  const at::NoGradGuard no_grad;
  const Transformer plain = load_model(pruned_source(GetParam()));
  ModelConfig config = plain.config();
  config.qkv_bias = config.output_bias = true;
  const std::map<std::string, Tensor> own(plain.parameters().begin(), plain.parameters().end());
  NamedTensors parameters;
  for (const ParameterSpec& spec : list_parameters(architecture_named(config.architecture, "test"), config)) {
    const auto it = own.find(spec.name);
    const Tensor drawn = at::arange(spec.shape[0], at::kFloat).mul(1.7).sin().mul(0.3);
    parameters.emplace_back(spec.name, it != own.end() ? it->second : drawn);
  }
  const Transformer dense(config, parameters);
  const Tensor wanted = ablate_others(dense, kEmptyLayer).to(at::kDouble);
  expect_close(prune_heads(dense, kEmptyLayer).forward(prune_ids()), wanted, "logits", 1e-5, 0);
}

TEST_P(PrunedModel, ShowsTheOriginalHeadsWithZerosForThoseGone) {
  const at::NoGradGuard no_grad;
  const Transformer pruned = prune_heads(load_model(pruned_source(GetParam())), kSome);
  Taps taps;
  Tensor pattern, z, result;
  taps.read({Site::kPattern, 0}, [&](const Tensor& x) { pattern = x; });
  taps.read({Site::kZ, 0}, [&](const Tensor& x) { z = x; });
  taps.read({Site::kResult, 0}, [&](const Tensor& x) { result = x; });
  ForwardOptions options;
  options.taps = &taps;
  pruned.forward(prune_ids(), options);
  EXPECT_EQ(pattern.size(1), 4);
  EXPECT_EQ(z.size(2), 4);
  EXPECT_EQ(pattern.select(1, 2).abs().max().item<float>(), 0);
  EXPECT_EQ(z.select(2, 2).abs().max().item<float>(), 0);
  EXPECT_EQ(result.select(2, 2).abs().max().item<float>(), 0);
  expect_close(pattern.select(1, 3).sum(-1), at::ones({2, 21}, at::kDouble), "rows of a head that is there");
  EXPECT_EQ(pruned.layer(0).attention_output.matrix().size(1), 4 * pruned.config().head_size);
}

TEST_P(PrunedModel, CountsGatesInTheOriginalShape) {
  const at::NoGradGuard no_grad;
  const Transformer gated = load_gated(pruned_source(GetParam()), GateKind::kLogprob);
  const Transformer closed = close_others(gated, kEmptyLayer), pruned = prune_heads(closed, kEmptyLayer);
  GateTotals whole, small;
  whole.cuts = small.cuts = {8};
  ForwardOptions options;
  options.gate_totals = &whole;
  closed.forward(prune_ids(), options);
  options.gate_totals = &small;
  pruned.forward(prune_ids(), options);
  EXPECT_TRUE(at::equal(at::stack(small.active), at::stack(whole.active)));
  EXPECT_TRUE(at::equal(at::stack(small.cut_active[0]), at::stack(whole.cut_active[0])));
}

TEST_P(PrunedModel, GeneratesWithTheCacheWhatItGeneratesWithout) {
  for (const GateKind gate : {GateKind::kNone, GateKind::kIdle}) {
    const Transformer pruned = prune_heads(load_gated(pruned_source(GetParam()), gate), kSome);
    GenerateOptions options;
    options.tokens = 12;
    const std::vector<int64_t> cached = generate(pruned, {5, 17, 80, 2, 41}, options);
    options.use_cache = false;
    EXPECT_EQ(cached, generate(pruned, {5, 17, 80, 2, 41}, options));
  }
}

TEST_P(PrunedModel, OpensAgainFromItsFolder) {
  const at::NoGradGuard no_grad;
  const TestFolder folder;
  const Transformer pruned = prune_heads(load_gated(pruned_source(GetParam()), GateKind::kIdle), kEmptyLayer);
  save_pruned_model(folder.path(), pruned, "5ab1e", at::kFloat);
  const nlohmann::json config = read_json_file(folder / "config.json");
  EXPECT_EQ(config.at("kept_heads"), nlohmann::json(kEmptyLayer));
  EXPECT_EQ(config.at("original_heads"), 4);
  EXPECT_EQ(config.at("source_sha256"), "5ab1e");
  const Transformer opened = load_model(folder.path());
  EXPECT_TRUE(at::equal(opened.forward(prune_ids()), pruned.forward(prune_ids())));
  for (const auto& [name, tensor] : opened.parameters()) {
    if (name.ends_with("gate_bias")) {
      EXPECT_THAT(tensor.size(0), testing::AnyOf(2, 4)) << name;
    }
  }
}

TEST_P(PrunedModel, PrunedTwiceIsPrunedAtOnce) {
  const at::NoGradGuard no_grad;
  const Transformer model = load_gated(pruned_source(GetParam()), GateKind::kScore);
  const Kept last = {{0, 3}, {}, {3}};
  const Transformer twice = prune_heads(prune_heads(model, kSome), last), once = prune_heads(model, last);
  EXPECT_TRUE(at::equal(twice.forward(prune_ids()), once.forward(prune_ids())));
  EXPECT_THROW(prune_heads(prune_heads(model, kSome), {{2}, {}, {}}), Error);
}

TEST_P(PrunedModel, HasGradientsForWhatItHas) {
  const Transformer model = load_gated(pruned_source(GetParam()), GateKind::kIdle, {.trainable = true});
  Transformer pruned = prune_heads(model, kEmptyLayer);
  NamedTensors leaves;
  for (const auto& [name, tensor] : pruned.parameters()) leaves.emplace_back(name, tensor.detach().clone());
  pruned = Transformer(pruned.config(), leaves);
  pruned.require_grad(true);
  GateTotals totals;
  ForwardOptions options;
  options.gate_totals = &totals;
  options.draw = {.seed = 3};
  const Tensor logits = pruned.forward(prune_ids(), options);
  (next_token_loss(logits, prune_ids()) + at::stack(totals.penalty).mean()).backward();
  for (const auto& [name, tensor] : pruned.parameters()) {
    if (name.find("gate_bias") != std::string::npos) {
      EXPECT_TRUE(tensor.grad().defined()) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, PrunedModel,
                         testing::Values("gpt2", "gpt_neox", "llama", "olmo", "olmo2"),
                         [](const auto& info) { return std::string(info.param); });

TEST(PrunedConfig, RefusesHeadsThatAreNotThere) {
  const TestFolder folder;
  save_pruned_model(folder.path(), prune_heads(load_model(pruned_source("llama")), kSome), "", at::kFloat);
  const nlohmann::json good = read_json_file(folder / "config.json");
  const auto refused = [&](const char* key, const nlohmann::json& value) {
    nlohmann::json bad = good;
    bad[key] = value;
    folder.write("config.json", bad.dump());
    EXPECT_THROW(load_model(folder.path()), Error) << key << " " << value;
  };
  refused("kept_heads", {{0, 1, 4}, {2}, {0, 2, 3}});
  refused("kept_heads", {{1, 0, 3}, {2}, {0, 2, 3}});
  refused("kept_heads", {{0, 1, 3}, {2}});
  refused("kept_heads", {{0, 1, 3}, {2}, "all"});
  refused("kept_heads", {{0, 1}, {2}, {0, 2, 3}});  // not the heads of these weights
  refused("original_heads", 8);
  refused("original_heads", nullptr);
}

TEST(PrunedConfig, TellsTransformersWhichHeadsAreGone) {
  const TestFolder folder;
  save_pruned_model(folder.path(), prune_heads(load_model(pruned_source("gpt2")), kSome), "", at::kFloat);
  EXPECT_EQ(read_json_file(folder / "config.json").at("pruned_heads"),
            nlohmann::json({{"0", {2}}, {"1", {0, 1, 3}}, {"2", {1}}}));
}

}  // namespace
}  // namespace openwork
