#include "base/progress.h"

#include <gtest/gtest.h>

namespace openwork {
namespace {

TEST(SecondsLeft, GoByWhatWasDoneSinceTheStart) {
  EXPECT_EQ(seconds_left(10, 20, 0, 100), 40);
  EXPECT_EQ(seconds_left(10, 60, 50, 100), 40) << "50 were done before: 10 took 10 s";
  EXPECT_EQ(seconds_left(10, 100, 50, 100), 0);
}

TEST(SecondsLeft, AreUnknownWhileNothingIsDone) {
  EXPECT_EQ(seconds_left(10, 0, 0, 100), std::nullopt);
  EXPECT_EQ(seconds_left(10, 50, 50, 100), std::nullopt);
  EXPECT_EQ(seconds_left(10, 101, 0, 100), std::nullopt) << "more than there was to do";
}

}  // namespace
}  // namespace openwork
