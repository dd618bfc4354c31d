// When passes are computed, recorded and played, by a recorder that writes down what it is asked.
#include "train/recorded_passes.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

namespace openwork {
namespace {

using testing::ElementsAre;
using testing::Pair;
using testing::UnorderedElementsAre;

struct Log {
  bool room = true, fails = false;
  int recorded = 0;
  std::vector<NewSeeds> played;
};

struct FakeRecording : Recording {
  explicit FakeRecording(Log& kept) : log(kept) {}
  void play(const NewSeeds& seeds) override { log.played.push_back(seeds); }
  Log& log;
};

struct FakeRecorder : Recorder {
  explicit FakeRecorder(Log& kept) : log(kept) {}
  bool has_room() override { return log.room; }
  std::unique_ptr<Recording> record(const std::function<void()>& work) override {
    TORCH_CHECK(!log.fails, "it waits");
    work();
    ++log.recorded;
    return std::make_unique<FakeRecording>(log);
  }
  Log& log;
};

struct Passes {
  Log log;
  RecordedPasses passes{std::make_unique<FakeRecorder>(log), 2};
  std::vector<PassInputs> computed;

  PassLoss run(const PassInputs& inputs) {
    return passes.run(inputs, [&](const PassInputs& given) {
      computed.push_back(given);
      PassLoss loss;
      loss.loss = given.tokens.sum().to(at::kFloat).requires_grad_() * 1;
      return loss;
    });
  }
};

PassInputs inputs_of(int64_t samples, std::optional<int64_t> seed, int64_t first = 0, int64_t value = 1) {
  PassInputs inputs{at::full({samples, 5}, value, at::kLong)};
  inputs.draw.seed = seed, inputs.draw.first = first;
  inputs.lambda = at::scalar_tensor(static_cast<double>(value), at::kDouble);
  return inputs;
}

TEST(RecordedPasses, AreComputedOnceRecordedOnceAndThenPlayed) {
  Passes passes;
  EXPECT_EQ(passes.run(inputs_of(3, 1)).loss.item<double>(), 15);
  EXPECT_EQ(passes.log.recorded, 0);
  passes.run(inputs_of(3, 2));
  EXPECT_EQ(passes.log.recorded, 1);
  EXPECT_EQ(passes.log.played.size(), 1U);
  passes.run(inputs_of(3, 3)), passes.run(inputs_of(3, 4));
  EXPECT_EQ(passes.computed.size(), 2U);
  EXPECT_EQ(passes.log.recorded, 1);
  EXPECT_EQ(passes.log.played.size(), 3U);
}

TEST(RecordedPasses, AreGivenTheirNumbersWhereTheyWereRecorded) {
  Passes passes;
  for (const int64_t value : {1, 1, 6}) passes.run(inputs_of(3, 2, 0, value));
  const PassInputs& recorded = passes.computed.back();
  EXPECT_TRUE(recorded.tokens.eq(6).all().item<bool>());
  EXPECT_EQ(recorded.lambda.item<double>(), 6);
  EXPECT_FALSE(recorded.slopes.defined());
}

TEST(RecordedPasses, HaveTheSeedsOfTheirLayers) {
  Passes passes;
  for (const int64_t seed : {5, 6, 7}) passes.run(inputs_of(3, seed));
  GateDraw was, is;
  was.seed = 6, is.seed = 7;  // the second was recorded
  EXPECT_THAT(passes.log.played.back(),
              UnorderedElementsAre(Pair(*was.of_layer(0).seed, *is.of_layer(0).seed),
                                   Pair(*was.of_layer(1).seed, *is.of_layer(1).seed)));
  for (int n = 0; n < 3; ++n) passes.run(inputs_of(3, std::nullopt));
  EXPECT_TRUE(passes.log.played.back().empty());
}

TEST(RecordedPasses, OfOtherShapesPlacesAndGatesAreOthers) {
  Passes passes;
  PassInputs sharper = inputs_of(3, 2);
  sharper.draw.sharpness = 2;
  for (int n = 0; n < 3; ++n) {
    passes.run(inputs_of(3, 2)), passes.run(inputs_of(4, 2)), passes.run(inputs_of(3, 2, 3));
    passes.run(inputs_of(3, std::nullopt)), passes.run(sharper);
  }
  EXPECT_EQ(passes.log.recorded, 5);
  EXPECT_EQ(passes.log.played.size(), 10U);
}

TEST(RecordedPasses, HaveNoGraphLeft) {
  Passes passes;
  for (int n = 0; n < 3; ++n) EXPECT_FALSE(passes.run(inputs_of(3, 2)).loss.requires_grad());
}

TEST(RecordedPasses, AreComputedWhereTheyCannotBeRecorded) {
  Passes full, failing;
  full.log.room = false, failing.log.fails = true;
  for (Passes* passes : {&full, &failing}) {
    for (int n = 0; n < 4; ++n) EXPECT_EQ(passes->run(inputs_of(3, 2, 0, n)).loss.item<double>(), 15 * n);
    EXPECT_EQ(passes->computed.size(), 4U);
    EXPECT_TRUE(passes->log.played.empty());
  }
}

TEST(RecordedPasses, WithoutARecorderAreComputed) {
  WeightOptions options;
  EXPECT_EQ(pass_recorder(options), nullptr);
  RecordedPasses passes(pass_recorder(options), 2);
  int computed = 0;
  for (int n = 0; n < 3; ++n) {
    passes.run(inputs_of(3, 2), [&](const PassInputs& given) {
      ++computed;
      PassLoss loss;
      loss.loss = given.lambda;
      return loss;
    });
  }
  EXPECT_EQ(computed, 3);
}

}  // namespace
}  // namespace openwork
