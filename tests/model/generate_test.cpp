// Many prompts in one batch, and how tokens are drawn.
#include "model/generate.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "model/load.h"

namespace openwork {
namespace {

using testing::ElementsAre;
using Ids = std::vector<int64_t>;

const std::vector<Ids> kPrompts = {
    {5, 17, 80, 2, 41}, {9}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {5, 17, 80, 2, 41}, {60, 61, 62}};

class GenerateBatch : public testing::TestWithParam<const char*> {};

TEST_P(GenerateBatch, GivesEachPromptTheTokensItGetsAlone) {
  const Transformer model = load_model(std::string("tests/data/") + GetParam());
  for (const double temperature : {0.0, 1.2}) {
    GenerateOptions options;
    options.tokens = 14, options.temperature = temperature, options.seed = 4, options.top_p = 0.9;
    const std::vector<Ids> together = generate_all(model, kPrompts, options);
    for (size_t n = 0; n < kPrompts.size(); ++n)
      EXPECT_EQ(together[n], generate(model, kPrompts[n], options)) << "prompt " << n;
    options.use_cache = false;
    EXPECT_EQ(together, generate_all(model, kPrompts, options));
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, GenerateBatch,
                         testing::Values("gpt2", "llama", "gpt_neox", "olmo", "olmo2", "llama_idle",
                                         "sparse_gpt2_published"));

TEST(Generate, APromptThatEndsLeavesTheOthersAsTheyWere) {
  const Transformer model = load_model("tests/data/llama");
  GenerateOptions options;
  options.tokens = 10;
  const std::vector<Ids> whole = generate_all(model, kPrompts, options);
  std::map<size_t, Ids> seen;
  const std::vector<Ids> cut = generate_all(model, kPrompts, options, [&](size_t n, int64_t token) {
    seen[n].push_back(token);
    return n != 1 || seen[n].size() < 3;
  });
  for (size_t n = 0; n < kPrompts.size(); ++n) {
    EXPECT_EQ(cut[n], n == 1 ? Ids(whole[n].begin(), whole[n].begin() + 3) : whole[n]);
    EXPECT_EQ(seen[n], cut[n]);
  }
}

TEST(Generate, EndsAfterItsStopToken) {
  const Transformer model = load_model("tests/data/llama");
  GenerateOptions options;
  options.tokens = 10;
  const Ids whole = generate(model, kPrompts[0], options);
  options.stop_at = whole[4];
  const Ids cut = generate(model, kPrompts[0], options);
  EXPECT_EQ(cut.back(), whole[4]);
  EXPECT_LE(cut.size(), 5u);
}

// Which tokens are drawn in many steps.
std::map<int64_t, int> draw_many(const Tensor& logits, const GenerateOptions& options) {
  std::map<int64_t, int> drawn;
  for (int64_t step = 0; step < 4000; ++step) ++drawn[choose_token(logits, options, step)];
  return drawn;
}

TEST(Generate, TopPKeepsTheFewestThatReachIt) {
  const Tensor logits = at::tensor({0.1, 0.4, 0.2, 0.3}, at::kDouble).log();
  GenerateOptions options;
  options.temperature = 1;
  const auto kept = [&](double p) {
    options.top_p = p;
    std::vector<int64_t> ids;
    for (const auto& [id, count] : draw_many(logits, options)) ids.push_back(id);
    return ids;
  };
  EXPECT_THAT(kept(0.0), ElementsAre(1));  // the most likely one always
  EXPECT_THAT(kept(0.39), ElementsAre(1));
  EXPECT_THAT(kept(0.5), ElementsAre(1, 3));
  EXPECT_THAT(kept(0.8), ElementsAre(1, 2, 3));
  EXPECT_THAT(kept(1.0), ElementsAre(0, 1, 2, 3));
}

TEST(Generate, TheSmallestTemperatureTakesTheMostLikely) {
  GenerateOptions options;
  for (const double temperature : {1e-8, 1e-320}) {
    options.temperature = temperature;
    EXPECT_EQ(choose_token(at::tensor({-3.0, 7.0, 2.0}), options, 0), 1) << temperature;
  }
}

TEST(Generate, DrawsInProportionAmongWhatIsKept) {
  const Tensor logits = at::tensor({0.1, 0.4, 0.2, 0.3}, at::kDouble).log();
  GenerateOptions options;
  options.temperature = 1, options.top_p = 0.6;
  const auto drawn = draw_many(logits, options);
  EXPECT_NEAR(drawn.at(1) / 4000.0, 0.4 / 0.7, 0.03);
  options.top_p = 1, options.top_k = 2;
  EXPECT_EQ(draw_many(logits, options), drawn);
}

TEST(Generate, RefusesPromptsThatAreEmptyOrTooLong) {
  const Transformer model = load_model("tests/data/llama");
  GenerateOptions options;
  EXPECT_THROW(generate_all(model, {{1}, {}}, options), Error);
  EXPECT_THROW(generate_all(model, {{1}, Ids(60, 1)}, options), Error);
}

}  // namespace
}  // namespace openwork
