// Gated models of every architecture: passes against the formulas of docs/operator.md in float64, tapped and
// cached passes against plain ones, and what is saved against what is opened again.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>

#include "golden.h"
#include "io/json.h"
#include "io/test_files.h"
#include "model/adapter.h"
#include "model/delta.h"
#include "model/gate_summary.h"
#include "model/gated_model.h"
#include "model/generate.h"
#include "model/save.h"
#include "ops/gated_attention.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

Tensor gate_ids(int64_t prompts = 2, int64_t tokens = 23) {
  const Tensor n = at::arange(prompts * tokens, at::kLong);
  return ((n * n * 7 + n * 31) % 97).view({prompts, tokens});
}

// What one layer was given and what it made of it.
struct SeenLayer {
  Tensor q, k, v, z, pattern, gate;  // as their sites have them
};

std::vector<SeenLayer> look_at(const Transformer& model, const Tensor& ids, bool patterns,
                               const GateDraw& draw, GateTotals* totals = nullptr) {
  const bool rotary = model.config().positions == Positions::kRotary;
  std::vector<SeenLayer> layers(static_cast<size_t>(model.config().layers));
  Taps taps;
  for (int64_t n = 0; n < model.config().layers; ++n) {
    SeenLayer& layer = layers[static_cast<size_t>(n)];
    const auto keep = [&](Site site, Tensor& place) {
      taps.read({site, n}, [&place](const Tensor& x) { place = x; });
    };
    keep(rotary ? Site::kRotatedQuery : Site::kQuery, layer.q);
    keep(rotary ? Site::kRotatedKey : Site::kKey, layer.k);
    keep(Site::kValue, layer.v);
    keep(Site::kZ, layer.z);
    if (patterns) keep(Site::kPattern, layer.pattern), keep(Site::kGate, layer.gate);
  }
  ForwardOptions options;
  options.taps = &taps;
  options.draw = draw;
  options.gate_totals = totals;
  model.forward(ids, options);
  return layers;
}

// P, g and z of one layer by the formulas, in float64.
struct WrittenOut {
  Tensor P, g, z, y;  // [B, H, T, T]; y [B, T, H, d]
};

WrittenOut write_out(const Transformer& model, int64_t index, const SeenLayer& seen) {
  const ModelConfig& config = model.config();
  const Layer& layer = model.layer(index);
  const auto by_head = [&](const Tensor& x) {
    return x.to(at::kDouble).transpose(1, 2).repeat_interleave(config.heads / x.size(2), 1);
  };
  const int64_t T = seen.q.size(1);
  const Tensor causal = at::ones({T, T}, at::kBool).tril();
  const Tensor b = layer.gate_bias.to(at::kDouble).view({-1, 1, 1});
  const Tensor S = (config.score_scale(index) * by_head(seen.q).matmul(by_head(seen.k).transpose(2, 3)))
                       .masked_fill(causal.logical_not(), -INFINITY);
  const Tensor L = S.exp().sum(-1, true).log();
  WrittenOut out;
  out.P = (S - L).exp();
  out.g = config.gate == GateKind::kScore ? S + b : S - L + b;
  if (config.gate == GateKind::kIdle)
    out.g = out.g - (1 + (layer.gate_idle.to(at::kDouble).view({-1, 1, 1}) - L).exp()).log();
  out.z = (out.g > 0).logical_and(causal).to(at::kDouble);
  out.y = (out.P * out.z).matmul(by_head(seen.v)).transpose(1, 2);
  return out;
}

class GatedModel : public testing::TestWithParam<std::tuple<const char*, GateKind>> {
 protected:
  Transformer load(const LoadOptions& options = {}) const {
    return load_gated(std::filesystem::path("tests/data") / std::get<0>(GetParam()), std::get<1>(GetParam()),
                      options);
  }
};

TEST_P(GatedModel, GatesPatternsAndOutputsAreTheFormulas) {
  const at::NoGradGuard no_grad;
  const Transformer model = load();
  GateTotals totals;
  const std::vector<SeenLayer> fast = look_at(model, gate_ids(), false, {}, &totals);
  const std::vector<SeenLayer> tapped = look_at(model, gate_ids(), true, {});
  double open = 0;
  for (int64_t n = 0; n < model.config().layers; ++n) {
    const auto at_layer = static_cast<size_t>(n);
    const WrittenOut wanted = write_out(model, n, fast[at_layer]);
    ASSERT_GT(wanted.g.abs().min().item<double>(), 1e-6) << "a gate too near its border to compare";
    expect_close(fast[at_layer].z, wanted.y, fmt::format("z of layer {}", n), 1e-5, 1e-4);
    expect_close(tapped[at_layer].z, wanted.y, fmt::format("tapped z of layer {}", n), 1e-5, 1e-4);
    expect_close(tapped[at_layer].gate, wanted.z, fmt::format("gate of layer {}", n), 0, 0);
    expect_close(tapped[at_layer].pattern, wanted.P * wanted.z, fmt::format("pattern of layer {}", n), 1e-5,
                 1e-4);
    expect_close(totals.active[at_layer], wanted.z.sum({2, 3}), fmt::format("active of layer {}", n), 0, 0);
    const double pairs = 23 * 24 / 2.0;
    expect_close(totals.penalty[at_layer],
                 wanted.g.sigmoid().masked_fill(wanted.P == 0, 0).sum({2, 3}) / pairs,
                 fmt::format("penalty of layer {}", n), 1e-5, 1e-4);
    open += wanted.z.mean().item<double>() / static_cast<double>(model.config().layers);
  }
  EXPECT_GT(open, 0.02);
  EXPECT_LT(open, 0.48);  // 0.52 would be every causal pair
}

// The operator's own reference on what the first layer was given: the door that kernels are tested at.
TEST_P(GatedModel, TheFirstLayerIsTheOperatorsReference) {
  const at::NoGradGuard no_grad;
  const Transformer model = load();
  const SeenLayer seen = look_at(model, gate_ids(), false, {}).front();
  const Layer& layer = model.layer(0);
  const auto wide = [](const Tensor& x) { return x.to(at::kDouble).transpose(1, 2); };
  std::optional<Tensor> idle;
  if (layer.gate_idle.defined()) idle = layer.gate_idle.to(at::kDouble);
  const auto reference = gated_attention_reference(
      wide(seen.q), wide(seen.k), wide(seen.v), layer.gate_bias.to(at::kDouble), idle,
      gate_name(model.config().gate), std::nullopt, 0, model.config().score_scale(0));
  expect_close(seen.z, reference.out.transpose(1, 2), "z", 1e-5, 1e-4);
}

// Sampled gates are functions of the seed alone: whoever taps a pass sees the gates that were drawn.
TEST_P(GatedModel, ATappedPassDrawsTheGatesOfThePlainOne) {
  const at::NoGradGuard no_grad;
  const Transformer model = load();
  for (const double sharpness : {1.0, 2.0}) {
    const GateDraw draw{.seed = 11, .first = 3, .sharpness = sharpness};
    GateTotals plain, tapped, hard;
    const std::vector<SeenLayer> fast = look_at(model, gate_ids(), false, draw, &plain);
    const std::vector<SeenLayer> seen = look_at(model, gate_ids(), true, draw, &tapped);
    look_at(model, gate_ids(), false, {}, &hard);
    bool differs = false;
    for (size_t n = 0; n < fast.size(); ++n) {
      EXPECT_TRUE(at::equal(plain.active[n], tapped.active[n])) << "layer " << n;
      EXPECT_TRUE(at::equal(seen[n].gate.sum({2, 3}).to(at::kLong), plain.active[n])) << "layer " << n;
      expect_close(tapped.penalty[n], plain.penalty[n].to(at::kDouble), "penalty", 1e-5, 1e-4);
      expect_close(seen[n].z, fast[n].z.to(at::kDouble), "z", 1e-5, 1e-4);
      differs |= !at::equal(plain.active[n], hard.active[n]);
    }
    EXPECT_TRUE(differs) << "nothing was sampled";
  }
}

TEST_P(GatedModel, ATappedPassHasTheGradientsOfThePlainOne) {
  const auto gradients = [&](bool tapped) {
    const Transformer model = load({.trainable = true});
    Taps taps;
    for (int64_t n = 0; tapped && n < model.config().layers; ++n)
      taps.read({Site::kGate, n}, [](const Tensor&) {});
    GateTotals totals;
    ForwardOptions options;
    options.taps = &taps;
    options.draw = {.seed = 5};
    options.gate_totals = &totals;
    const Tensor logits = model.forward(gate_ids(), options);
    (next_token_loss(logits, gate_ids()) + at::stack(totals.penalty).mean()).backward();
    std::map<std::string, Tensor> found;
    for (const auto& [name, tensor] : model.parameters()) found[name] = tensor.grad().to(at::kDouble);
    return found;
  };
  const auto plain = gradients(false), tapped = gradients(true);
  for (const auto& [name, gradient] : plain) expect_close(tapped.at(name), gradient, name, 2e-5, 1e-3);
}

TEST_P(GatedModel, CachedPiecesAreTheWholePass) {
  const at::NoGradGuard no_grad;
  const Transformer model = load();
  const Tensor ids = gate_ids();
  KeyValueCache cache(model.config().layers, ids.size(1));
  ForwardOptions options;
  options.cache = &cache;
  std::vector<Tensor> pieces;
  for (const auto& [begin, length] : std::vector<std::pair<int64_t, int64_t>>{{0, 9}, {9, 1}, {10, 13}})
    pieces.push_back(model.forward(ids.narrow(1, begin, length), options));
  expect_close(at::cat(pieces, 1), model.forward(ids).to(at::kDouble), "logits", 1e-4, 1e-3);
  GenerateOptions generation;
  generation.tokens = 12;
  const std::vector<int64_t> cached = generate(model, {5, 17, 80, 2, 41}, generation);
  generation.use_cache = false;
  EXPECT_EQ(cached, generate(model, {5, 17, 80, 2, 41}, generation));
}

// A text's first n tokens are a text.
TEST_P(GatedModel, CutCallsCountTheGatesOfShorterTexts) {
  const at::NoGradGuard no_grad;
  const Transformer model = load();
  GateTotals whole;
  whole.cuts = {1, 8, 23};
  look_at(model, gate_ids(), false, {}, &whole);
  for (size_t n = 0; n < whole.cuts.size(); ++n) {
    GateTotals cut;
    look_at(model, gate_ids().narrow(1, 0, whole.cuts[n]), false, {}, &cut);
    ASSERT_EQ(whole.cut_active[n].size(), cut.active.size());
    for (size_t layer = 0; layer < cut.active.size(); ++layer)
      EXPECT_TRUE(at::equal(whole.cut_active[n][layer], cut.active[layer]))
          << whole.cuts[n] << " rows, layer " << layer;
  }
}

TEST_P(GatedModel, IsSavedAndOpenedAsItWas) {
  const at::NoGradGuard no_grad;
  const TestFolder folder;
  const Transformer model = load();
  save_model(folder / "model", model.config(), model.parameters(), at::kHalf);
  const Transformer again = load_model(folder / "model", {.dtype = at::kBFloat16});
  EXPECT_EQ(again.config().gate, std::get<1>(GetParam()));
  for (int64_t n = 0; n < model.config().layers; ++n) {
    EXPECT_TRUE(at::equal(again.layer(n).gate_bias, model.layer(n).gate_bias)) << "gates stay float32";
    ASSERT_EQ(again.layer(n).gate_idle.defined(), model.layer(n).gate_idle.defined());
    if (model.layer(n).gate_idle.defined()) {
      EXPECT_TRUE(at::equal(again.layer(n).gate_idle, model.layer(n).gate_idle));
    }
  }
  const nlohmann::json gate = {{"kind", gate_name(std::get<1>(GetParam()))}, {"version", 1}};
  EXPECT_EQ(read_json_file(folder / "model" / "config.json").at("attention_gate"), gate);
}

INSTANTIATE_TEST_SUITE_P(Architectures, GatedModel,
                         testing::Combine(testing::Values("gpt2", "gpt_neox", "llama", "olmo", "olmo2"),
                                          testing::Values(GateKind::kScore, GateKind::kLogprob,
                                                          GateKind::kIdle)),
                         [](const auto& info) {
                           return fmt::format("{}_{}", std::get<0>(info.param),
                                              gate_name(std::get<1>(info.param)));
                         });

class IdleFolder : public testing::Test {
 protected:
  const std::string base_ = "tests/data/llama";
  const TestFolder folder_;
  const Transformer model_ = load_gated(base_, GateKind::kIdle);

  void expect_same(const Transformer& again) const {
    const at::NoGradGuard no_grad;
    EXPECT_EQ(again.config().gate, GateKind::kIdle);
    EXPECT_TRUE(at::equal(again.layer(2).gate_idle, model_.layer(2).gate_idle));
    expect_close(again.forward(gate_ids()), model_.forward(gate_ids()).to(at::kDouble), "logits", 1e-6, 1e-6);
  }
};

TEST_F(IdleFolder, IsACompactDifference) {
  save_delta(folder_ / "small", model_.config(), model_.parameters(),
             {base_, base_, load_model(base_).parameters()}, {});
  expect_same(load_adapted_model(base_, folder_ / "small"));
  const GateSummary gates = summarise_gates(base_, folder_ / "small");
  EXPECT_EQ(gates.kind, GateKind::kIdle);
  EXPECT_FLOAT_EQ(gates.bias->low, 1.5f);
  EXPECT_FLOAT_EQ(gates.bias->high, 3.5f);
  EXPECT_EQ(gates.idle->high, std::numeric_limits<float>::infinity());
}

// A base whose file has an unembedding of its own though its configuration says tied: it comes along.
TEST(TiedInNameOnly, ABaseIsWhatDifferencesAndSavedModelsAreMadeOf) {
  const TestFolder folder;
  const fs::path base = folder / "base";
  fs::create_directories(base);
  fs::copy("tests/data/olmo2/model.safetensors", base);
  nlohmann::json config = read_json_file("tests/data/olmo2/config.json");
  config["tie_word_embeddings"] = true;
  std::ofstream(base / "config.json") << config.dump();
  const Transformer model = load_gated(base.string(), GateKind::kScore);
  const at::NoGradGuard no_grad;
  const Tensor logits = load_gated("tests/data/olmo2", GateKind::kScore).forward(gate_ids()).to(at::kDouble);
  save_delta(folder / "small", model.config(), model.parameters(),
             {"base", base, load_model(base).parameters()}, {{"lm_head.weight", 4}});
  expect_close(load_adapted_model(base, folder / "small").forward(gate_ids()), logits, "difference", 1e-5,
               1e-5);
  save_model(folder / "whole", model.config(), model.parameters());
  expect_close(load_model(folder / "whole").forward(gate_ids()), logits, "saved", 1e-6, 1e-6);
  EXPECT_EQ(read_json_file(folder / "whole/config.json")["tie_word_embeddings"], false);
}

TEST_F(IdleFolder, AnAdapterOfAnotherRankThanItsConfigurationSaysIsRefused) {
  const std::string module = "model.layers.0.self_attn.q_proj";
  save_adapter(
      folder_ / "adapter", load_config(base_), {.rank = 4, .alpha = 8, .targets = {"q_proj"}},
      {{module + ".lora_A.weight", at::ones({2, 32})}, {module + ".lora_B.weight", at::ones({32, 2})}},
      base_);
  expect_bad_input("lora_A of '" + module + "' has rank 2, wanted 4",
                   [&] { load_adapted_model(base_, folder_ / "adapter"); });
  nlohmann::json config = read_json_file(folder_ / "adapter/adapter_config.json");
  config["rank_pattern"] = {{"q_proj", 2}}, config["alpha_pattern"] = {{"layers.0.self_attn.q_proj", 3}};
  std::ofstream(folder_ / "adapter/adapter_config.json") << config.dump();
  const Tensor change = load_adapted_model(base_, folder_ / "adapter").layer(0).query.weight -
                        load_model(base_).layer(0).query.weight;
  expect_close(change, at::full({32, 32}, 3.0, at::kDouble), "B A, 2, times 3 / 2", 1e-5, 1e-5);
}

NamedTensors gate_tensors(const Transformer& model) {
  NamedTensors gates;
  for (const auto& [name, tensor] : model.parameters()) {
    if (name.ends_with(".gate_bias") || name.ends_with(".gate_idle")) gates.emplace_back(name, tensor);
  }
  return gates;
}

TEST_F(IdleFolder, IsAnAdapter) {
  save_adapter(folder_ / "adapter", model_.config(), {}, gate_tensors(model_), base_);
  expect_same(load_adapted_model(base_, folder_ / "adapter"));
  EXPECT_EQ(summarise_gates(base_, folder_ / "adapter").kind, GateKind::kIdle);
}

TEST_F(IdleFolder, AnAdapterMustHoldWhatItsKindWants) {
  NamedTensors gates = gate_tensors(model_);
  ModelConfig config = model_.config();
  const auto refused = [&] {
    save_adapter(folder_ / "adapter", config, {}, gates, base_);
    try {
      load_adapted_model(base_, folder_ / "adapter");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("it was opened");
  };
  config.gate = GateKind::kLogprob;
  EXPECT_THAT(refused(),
              testing::HasSubstr("unexpected tensor 'base_model.model.model.layers.0.self_attn.gate_idle'"));
  config.gate = GateKind::kIdle;
  gates[1].second = at::ones({3});
  EXPECT_THAT(refused(), testing::HasSubstr("gate_idle' is missing or not of 4 heads"));
  gates.erase(gates.begin() + 1);
  EXPECT_THAT(refused(), testing::HasSubstr("gate_idle' is missing or not of 4 heads"));
}

}  // namespace
}  // namespace openwork
