// Shares of ranks: every number has one owner, whatever the sizes, and what a run will take is what it takes.
#include "train/shards.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "train/memory.h"
#include "train/optimiser.h"
#include "train/run_fixture.h"

namespace openwork {
namespace {

TEST(ShardPlan, GivesEveryNumberToOneRankWhateverTheSizes) {
  for (const int64_t numbers : {1, 64, 1000, 1024, 1025, 5000, 123456, 1000003}) {
    for (const int ranks : {1, 2, 3, 5, 8}) {
      for (const int64_t chunk_bytes : {int64_t{1}, int64_t{100000}, ShardPlan::kChunkBytes}) {
        std::vector<int> owners(static_cast<size_t>(numbers) + 8 * 8 * ShardPlan::kBlock, 0);
        int64_t padded = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          const ShardPlan plan(numbers, rank, ranks, chunk_bytes);
          padded = plan.padded();
          int64_t place = 0, begin = 0;
          for (const ShardPlan::Chunk& chunk : plan.chunks()) {
            EXPECT_EQ(chunk.begin, begin);
            EXPECT_EQ(plan.own_place(chunk), place);
            for (int64_t n = 0; n < chunk.piece; ++n)
              ++owners.at(static_cast<size_t>(plan.own_begin(chunk) + n));
            place += chunk.piece, begin += plan.size(chunk);
          }
          EXPECT_EQ(place, plan.share());
          EXPECT_EQ(begin, plan.padded());
        }
        ASSERT_GE(padded, numbers);
        ASSERT_LT(padded - numbers, ranks == 1 ? 1 : ranks * ShardPlan::kBlock);
        for (int64_t n = 0; n < padded; ++n) ASSERT_EQ(owners[static_cast<size_t>(n)], 1) << n;
      }
    }
  }
}

TEST(ShardPlan, NeverCutsABlock) {
  for (int rank = 0; rank < 3; ++rank) {
    const ShardPlan plan(100000, rank, 3, 65536);
    EXPECT_GT(plan.chunks().size(), 3u);
    for (const ShardPlan::Chunk& chunk : plan.chunks()) {
      EXPECT_EQ(plan.own_begin(chunk) % ShardPlan::kBlock, 0);
      EXPECT_EQ(chunk.piece % ShardPlan::kBlock, 0);
    }
  }
}

TEST(Memory, OfWeightsGradientsAndMomentsIsSaidToTheByte) {
  for (const int ranks : {1, 2, 4}) {
    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      WeightOptions options;
      options.dtype = dtype, options.ranks = ranks, options.rank = ranks - 1;
      const TrainedWeights weights = TinyRun::make({}, GateKind::kIdle, options);
      const AdamW optimiser(weights, {});
      const MemoryNeed need = predict_memory(weights.config(), options, {}, 16);
      const auto bytes = [](const Tensor& x) { return x.defined() ? static_cast<int64_t>(x.nbytes()) : 0; };
      EXPECT_EQ(need.weights, bytes(weights.masters()) + bytes(weights.copies()));
      EXPECT_EQ(need.gradients, bytes(weights.gradients()) + bytes(weights.copies()));
      EXPECT_EQ(need.moments, bytes(optimiser.first_moment()) + bytes(optimiser.second_moment()));
      EXPECT_EQ(need.exchange > 0, ranks > 1);
      EXPECT_EQ(need.total(),
                need.weights + need.gradients + need.moments + need.exchange + need.activations);
    }
  }
}

TEST(Memory, OfMoreRanksIsLessForEach) {
  const ModelConfig config = load_model("tests/data/gpt2").config();
  int64_t before = std::numeric_limits<int64_t>::max();
  for (const int ranks : {1, 2, 4, 8}) {
    WeightOptions options;
    options.ranks = ranks, options.dtype = at::kBFloat16;
    const MemoryNeed need = predict_memory(config, options, {}, 16);
    EXPECT_LT(need.weights + need.gradients + need.moments, before);
    before = need.weights + need.gradients + need.moments;
  }
}

TEST(Memory, APeakIsSeen) {
  const PeakMemory peak(at::kCPU);
  const int64_t before = resident_bytes();
  { const at::Tensor large = at::ones({50'000'000}, at::kFloat); }
  EXPECT_GE(peak.bytes(), before + 190'000'000);
}

}  // namespace
}  // namespace openwork
