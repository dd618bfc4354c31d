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
  const HeldOutResult result = evaluate_held_out(model, blocks, 0);
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
  const HeldOutResult result = evaluate_held_out(model, blocks, 0);
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

}  // namespace
}  // namespace openwork
