#include "analyze/held_out.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "model/load.h"

namespace openwork {
namespace {

// Blocks of made-up tokens: two documents, one byte a token.
TokenBlocks make_blocks(int64_t context, int64_t count, int32_t vocabulary) {
  TokenBlocks blocks;
  blocks.context = context;
  blocks.count = count;
  for (int64_t n = 0; n < context * count + 1; ++n) {
    blocks.tokens.push_back(static_cast<int32_t>((n * 37 + n / 5) % vocabulary));
    blocks.document.push_back(n < context ? 0 : 1);
    blocks.bytes.push_back(1);
  }
  return blocks;
}

TEST(HeldOut, IsTheMeanOfTheBlocksLosses) {
  const Transformer model = load_model("tests/data/llama");
  const TokenBlocks blocks = make_blocks(16, 3, 97);
  const Evaluation result = evaluate_held_out(model, blocks);
  double total = 0;
  for (int64_t block = 0; block < 3; ++block) {
    std::vector<int64_t> ids(blocks.tokens.begin() + block * 16, blocks.tokens.begin() + block * 16 + 17);
    const Tensor tensor = at::tensor(ids, at::kLong).unsqueeze(0);
    total += next_token_loss(model.forward(tensor), tensor).item<double>();  // 16 predictions each
  }
  EXPECT_NEAR(result.nats_per_token, total / 3, 1e-5);
  EXPECT_NEAR(result.bits_per_byte, total / 3 / std::log(2.0), 1e-5);
  EXPECT_EQ(result.tokens, 48);
  EXPECT_EQ(result.documents, 2);
  EXPECT_EQ(result.kept_edges, 1);
  EXPECT_EQ(result.open_heads, 12);
}

TEST(HeldOut, CountsTheEdgesThatTheGatesKeep) {
  const Transformer model = load_model("tests/data/sparse_gpt2_published");
  const TokenBlocks blocks = make_blocks(20, 2, 97);
  const Evaluation result = evaluate_held_out(model, blocks);
  double kept = 0;
  for (int64_t block = 0; block < 2; ++block) {
    Taps taps;
    for (int64_t layer = 0; layer < 3; ++layer) {
      taps.read({Site::kGate, layer}, [&](const Tensor& z) { kept += z.sum().item<double>(); });
    }
    std::vector<int64_t> ids(blocks.tokens.begin() + block * 20, blocks.tokens.begin() + block * 20 + 20);
    ForwardOptions options;
    options.taps = &taps;
    model.forward(at::tensor(ids, at::kLong).unsqueeze(0), options);
  }
  EXPECT_NEAR(result.kept_edges, kept / (2 * 3 * 4 * 210), 1e-9);
  EXPECT_GT(result.kept_edges, 0);
  EXPECT_LT(result.kept_edges, 1);
}

// Open gates of every head in one row of every block, [context], from tapped passes over whole blocks.
std::vector<double> count_by_row(const Transformer& model, const TokenBlocks& blocks) {
  std::vector<double> open(static_cast<size_t>(blocks.context));
  for (int64_t block = 0; block < blocks.count; ++block) {
    Taps taps;
    for (int64_t layer = 0; layer < model.config().layers; ++layer) {
      taps.read({Site::kGate, layer}, [&](const Tensor& z) {
        for (int64_t row = 0; row < blocks.context; ++row)
          open[static_cast<size_t>(row)] += z.select(2, row).sum().item<double>();
      });
    }
    const auto* first = blocks.tokens.data() + block * blocks.context;
    const std::vector<int64_t> ids(first, first + blocks.context);
    model.forward(at::tensor(ids, at::kLong).unsqueeze(0), {.taps = &taps});
  }
  return open;
}

class HeldOutRows : public testing::TestWithParam<const char*> {};

TEST_P(HeldOutRows, AreCountedAsTappedPassesCountThem) {
  const Transformer model = load_model(std::string("tests/data/") + GetParam());
  for (const int64_t context : {6, 8, 20, 64}) {
    const TokenBlocks blocks = make_blocks(context, 3, 97);
    const Evaluation result = evaluate_held_out(model, blocks);
    const std::vector<double> open = count_by_row(model, blocks);
    for (size_t n = 0; n < kRowRanges.size(); ++n) {
      double kept = 0, pairs = 0;
      for (int64_t keys = kRowRanges[n].first; keys <= std::min(kRowRanges[n].last, context); ++keys) {
        kept += open[static_cast<size_t>(keys - 1)];
        pairs += 3 * 3 * 4 * static_cast<double>(keys);  // blocks, layers, heads
      }
      ASSERT_EQ(result.kept_edges_by_row[n].has_value(), pairs > 0)
          << kRowRanges[n].name << " of " << context;
      const double share = pairs > 0 ? kept / pairs : 0;
      EXPECT_NEAR(result.kept_edges_by_row[n].value_or(0), share, 1e-9) << kRowRanges[n].name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Gates, HeldOutRows, testing::Values("sparse_gpt2_published", "llama_idle"));

TEST(HeldOut, PromptsAreMeansOverPrompts) {
  const Transformer model = load_model("tests/data/llama_idle");
  HeldOutOptions options;
  options.prompts = {{5}, {9, 2, 7, 7, 1, 3, 11}, {4, 8, 15, 16, 23, 42, 8, 8, 8, 20, 21, 22}};
  double kept = 0, open = 0;
  for (const std::vector<int32_t>& prompt : options.prompts) {
    double edges = 0;
    Taps taps;
    for (int64_t layer = 0; layer < 3; ++layer) {
      taps.read({Site::kGate, layer}, [&](const Tensor& z) {
        edges += z.sum().item<double>();
        open += z[0].flatten(1).any(1).sum().item<double>() / 3;
      });
    }
    model.forward(at::tensor(std::vector<int64_t>(prompt.begin(), prompt.end()), at::kLong).unsqueeze(0),
                  {.taps = &taps});
    kept += edges / (12 * static_cast<double>(prompt.size() * (prompt.size() + 1) / 2)) / 3;
  }
  const Evaluation result = evaluate_held_out(model, make_blocks(16, 2, 97), options);
  EXPECT_NEAR(*result.prompt_kept_edges, kept, 1e-9);
  EXPECT_NEAR(*result.prompt_open_heads, open, 1e-9);
  EXPECT_GT(kept, 0);
  EXPECT_LT(kept, 1);
  EXPECT_LT(open, 12);  // one head is closed whatever the text
}

TEST(HeldOut, ADenseModelKeepsEveryRowAndPrompt) {
  HeldOutOptions options;
  options.prompts = {{5, 6}, {9, 2, 7}};
  const Evaluation result =
      evaluate_held_out(load_model("tests/data/llama"), make_blocks(16, 2, 97), options);
  EXPECT_EQ(result.kept_edges_by_row[0], 1);
  EXPECT_EQ(result.kept_edges_by_row[1], 1);
  EXPECT_FALSE(result.kept_edges_by_row[2].has_value());
  EXPECT_EQ(result.prompt_kept_edges, 1);
  EXPECT_EQ(result.prompt_open_heads, 12);
}

TEST(HeldOut, TheRecordComesBackFromItsJson) {
  const Evaluation result = evaluate_held_out(load_model("tests/data/llama_idle"), make_blocks(20, 2, 97));
  const nlohmann::json json = to_json(result);
  EXPECT_EQ(to_json(evaluation_from_json(json)), json);
  EXPECT_TRUE(json.at("kept_edges_by_row").at("65-256").is_null());
  EXPECT_TRUE(json.at("prompt_kept_edges").is_null());
  EXPECT_EQ(result.head_count(), 12);
}

}  // namespace
}  // namespace openwork
