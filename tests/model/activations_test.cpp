#include "model/activations.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/error.h"
#include "golden.h"
#include "model/load.h"

namespace openwork {
namespace {

Tensor some_ids() {
  return at::tensor({5, 17, 80, 2, 41, 9}, at::kLong).unsqueeze(0);
}

Tensor logits_with(const Transformer& model, const Taps& taps) {
  const at::NoGradGuard no_grad;
  ForwardOptions options;
  options.taps = &taps;
  return model.forward(some_ids(), options);
}

TEST(ActivationNames, GoThereAndBack) {
  for (const char* name :
       {"hook_embed", "hook_pos_embed", "blocks.2.hook_resid_pre", "blocks.0.attn.hook_pattern",
        "blocks.1.attn.hook_z", "blocks.1.ln2.hook_scale", "blocks.2.mlp.hook_post",
        "ln_final.hook_normalized", "blocks.0.attn.hook_gate", "blocks.2.hook_resid_post"}) {
    EXPECT_EQ(to_string(parse_activation_name(name, 3)), name);
  }
}

TEST(ActivationNames, RefuseWhatThereIsNot) {
  for (const char* name : {"", "blocks.3.hook_resid_pre", "blocks.-1.hook_resid_pre", "blocks.0.hook_nothing",
                           "blocks.0.", "hook_resid_pre", "blocks.0.hook_embed", "blocks.x.attn.hook_z"}) {
    EXPECT_THROW(parse_activation_name(name, 3), Error) << name;
  }
}

TEST(Taps, ReadingEverythingChangesNothing) {
  for (const char* folder : {"tests/data/gpt2", "tests/data/gpt_neox", "tests/data/llama", "tests/data/olmo",
                             "tests/data/olmo2"}) {
    const Transformer model = load_model(folder);
    Taps taps;
    int seen = 0;
    for (int site = 0; site <= static_cast<int>(Site::kFinalNormalized); ++site) {
      for (int64_t layer = -1; layer < model.config().layers; ++layer) {
        taps.read({static_cast<Site>(site), layer}, [&](const Tensor&) { ++seen; });
      }
    }
    expect_close(logits_with(model, taps), model.forward(some_ids()).detach().to(at::kDouble), folder, 1e-5,
                 1e-5);
    EXPECT_GE(seen, 17 * model.config().layers) << folder;
  }
}

TEST(Taps, ReplacingAHeadsOutputByZeroRemovesItsResult) {
  const Transformer model = load_model("tests/data/gpt2");
  Taps by_z, by_result;
  by_z.replace({Site::kZ, 1}, [](const Tensor& z) {
    Tensor copy = z.clone();
    copy.select(2, 3).zero_();
    return copy;
  });
  by_result.replace({Site::kResult, 1}, [](const Tensor& result) {
    Tensor copy = result.clone();
    copy.select(2, 3).zero_();
    return copy;
  });
  const Tensor ablated = logits_with(model, by_z);
  expect_close(ablated, logits_with(model, by_result).to(at::kDouble), "logits", 1e-5, 1e-5);
  EXPECT_GT((ablated - model.forward(some_ids())).abs().max().item<double>(), 1e-3);
}

// Who replaces may write to what it is given: it is no view of the weights, which lie in the file's map.
TEST(Taps, PositionsAreTheTapsOwn) {
  const Transformer model = load_model("tests/data/gpt2");
  const Tensor before = model.forward(some_ids()).detach().to(at::kDouble);
  Taps in_place, copied;
  in_place.replace({Site::kPositions, -1}, [](const Tensor& x) { return Tensor(x).zero_(); });
  copied.replace({Site::kPositions, -1}, [](const Tensor& x) { return at::zeros_like(x); });
  expect_close(logits_with(model, in_place), logits_with(model, copied).to(at::kDouble), "logits", 0, 0);
  expect_close(model.forward(some_ids()).detach(), before, "logits", 0, 0);
}

TEST(Taps, AReplacedPatternIsWhatTheValuesAreGatheredBy) {
  const Transformer model = load_model("tests/data/llama");
  Tensor values, z;
  Taps taps;
  taps.replace({Site::kPattern, 0},
               [](const Tensor& pattern) { return at::eye(pattern.size(-1)).expand_as(pattern).clone(); });
  taps.read({Site::kValue, 0}, [&](const Tensor& v) { values = v; });
  taps.read({Site::kZ, 0}, [&](const Tensor& tensor) { z = tensor; });
  logits_with(model, taps);
  const int64_t group = model.config().group_size();
  expect_close(z, values.repeat_interleave(group, 2).to(at::kDouble), "z");
}

TEST(Taps, ScoresAreHiddenAboveTheDiagonal) {
  const Transformer model = load_model("tests/data/olmo");
  Taps taps;
  taps.read({Site::kScores, 0}, [](const Tensor& scores) {
    EXPECT_EQ(scores[0][0][0][1].item<float>(), -std::numeric_limits<float>::infinity());
    EXPECT_TRUE(std::isfinite(scores[0][0][1][0].item<float>()));
  });
  logits_with(model, taps);
}

TEST(Taps, AReplacementOfAnotherShapeIsRefused) {
  const Transformer model = load_model("tests/data/gpt2");
  Taps taps;
  taps.replace({Site::kMlpOut, 0}, [](const Tensor& x) { return x.narrow(1, 0, 1); });
  EXPECT_THROW(logits_with(model, taps), Error);
}

TEST(Taps, TheGateOfAGatedModelIsZeroOrOneAndCutsThePattern) {
  const Transformer model = load_model("tests/data/sparse_gpt2_published");
  Tensor gate, pattern;
  Taps taps;
  taps.read({Site::kGate, 1}, [&](const Tensor& z) { gate = z; });
  taps.read({Site::kPattern, 1}, [&](const Tensor& p) { pattern = p; });
  logits_with(model, taps);
  EXPECT_TRUE(((gate == 0) | (gate == 1)).all().item<bool>());
  EXPECT_TRUE((pattern.masked_select(gate == 0) == 0).all().item<bool>());
  EXPECT_LT(gate.sum().item<double>(), gate.numel());
}

TEST(RunLayers, InTwoPartsEqualsTheWhole) {
  const Transformer model = load_model("tests/data/olmo2");
  const at::NoGradGuard no_grad;
  const Tensor middle = model.run_layers(model.embed(some_ids()), 0, 2);
  const Tensor logits = model.unembed(model.run_layers(middle, 2, 3));
  expect_close(logits, model.forward(some_ids()).to(at::kDouble), "logits", 1e-6, 1e-6);
}

}  // namespace
}  // namespace openwork
