#include "train/runaway.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "io/test_files.h"

namespace openwork {
namespace {

// Lines of a run whose gradients begin large and settle near 0.6.
double settled(int line) {
  return 0.6 + 0.2 * std::sin(line) + 30 * std::exp(-line / 4.0);
}

TEST(RunawayWatch, SaysNothingOfARunThatSettlesNorOfShortBursts) {
  RunawayWatch watch;
  for (int line = 0; line < 1000; ++line) {
    const bool burst = line % 40 < 4;
    EXPECT_FALSE(watch.watch(burst ? 20 : settled(line), line)) << line;
  }
}

TEST(RunawayWatch, SaysOnceThatGradientsStayLarge) {
  RunawayWatch watch;
  for (int line = 0; line < 200; ++line) ASSERT_FALSE(watch.watch(settled(line), line));
  for (int line = 200; line < 204; ++line) EXPECT_FALSE(watch.watch(9, line));
  const auto said = watch.watch(9, 204);
  ASSERT_TRUE(said);
  EXPECT_NE(said->find("by step 204 gradients have grown to 9, 14 times"), std::string::npos) << *said;
  EXPECT_NE(said->find("--weight-decay"), std::string::npos);
  for (int line = 205; line < 400; ++line) EXPECT_FALSE(watch.watch(50, line));
}

TEST(RunawayWatch, ARunThatGoesOnKnowsTheSizeOfItsLinesBefore) {
  const TestFolder folder;
  std::string metrics;
  for (int line = 0; line < 60; ++line)
    metrics += nlohmann::json{{"step", line}, {"gradient_norm", settled(line)}}.dump() + "\n";
  RunawayWatch watch;
  watch.remember(folder.write("metrics.jsonl", metrics + "{\"step\": 60}\n{\"gradient_n"));
  for (int line = 60; line < 64; ++line) EXPECT_FALSE(watch.watch(9, line));
  EXPECT_TRUE(watch.watch(9, 64));
}

TEST(RunawayWatch, KnowsNoUsualSizeInAFewLines) {
  RunawayWatch watch;
  for (int line = 0; line < 40; ++line) EXPECT_FALSE(watch.watch(line < 20 ? 0.5 : 50, line));
}

}  // namespace
}  // namespace openwork
