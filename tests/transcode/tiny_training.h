// Transcoders of the tiny GPT-2 trained on made-up tokens, for tests: a few milliseconds a step.
#pragma once
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "base/progress.h"
#include "train/run_fixture.h"
#include "transcode/measure_transcoders.h"
#include "transcode/train_transcoders.h"

namespace openwork {

class TinyTranscoders : public testing::Test {
 protected:
  TinyTranscoders() : model(load_model("tests/data/gpt2")), batches(write_tokens(folder), 16, 3) {
    set_quiet(true);
  }
  ~TinyTranscoders() override { set_quiet(false); }

  TranscodeOptions tiny(const std::string& name, int64_t steps = 12) const {
    TranscodeOptions options;
    options.features = 48, options.k = 8;
    options.folder = folder / name;
    options.seed = 3, options.batch = 8, options.steps = steps;
    options.log_every = 3, options.checkpoint_every = 5;
    options.learning_rate = 5e-3;
    return options;
  }

  TranscodeResult train(const TranscodeOptions& options) {
    return train_transcoders(model, batches, options);
  }

  // On the tokens it was trained on, which a text of 97 made-up words is all there is.
  TranscoderQuality measure(const Transcoders& transcoders) {
    TokenBlocks blocks;
    blocks.context = 16, blocks.count = 60;
    const Tensor ids = batches.read(0, 61).narrow(1, 0, 16).flatten();
    blocks.tokens.assign(ids.data_ptr<int64_t>(), ids.data_ptr<int64_t>() + 60 * 16 + 1);
    blocks.document.assign(blocks.tokens.size(), 0);
    Ranks alone;
    TranscoderQuality quality = measure_transcoders(model, transcoders, blocks, alone);
    quality.curves = measure_curves(model, transcoders, blocks, blocks.count, alone);
    return quality;
  }

  TestFolder folder;
  Transformer model;
  Batches batches;
};

inline void expect_same(const Transcoders& a, const Transcoders& b, double tolerance) {
  ASSERT_EQ(a.layers.size(), b.layers.size());
  for (size_t n = 0; n < a.layers.size(); ++n) {
    const auto near = [&](const Tensor& x, const Tensor& y) {
      return tolerance == 0 ? at::equal(x, y) : at::allclose(x, y, tolerance, tolerance);
    };
    EXPECT_TRUE(near(a.layers[n].encoder, b.layers[n].encoder)) << n;
    EXPECT_TRUE(near(a.layers[n].encoder_bias, b.layers[n].encoder_bias)) << n;
    EXPECT_TRUE(near(a.layers[n].decoder, b.layers[n].decoder)) << n;
    EXPECT_TRUE(near(a.layers[n].threshold, b.layers[n].threshold)) << n;
    ASSERT_EQ(a.layers[n].skip.defined(), b.layers[n].skip.defined());
    if (!a.layers[n].skip.defined()) continue;
    EXPECT_TRUE(near(a.layers[n].skip, b.layers[n].skip)) << n;
  }
}

}  // namespace openwork
