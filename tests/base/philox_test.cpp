#include "base/philox.h"

#include <gtest/gtest.h>

namespace openwork {
namespace {

// Known answers of the Random123 distribution for philox4x32-10.
TEST(Philox, GivesThePublishedAnswers) {
  const Philox4 zero = philox(0, 0);
  EXPECT_EQ(zero.word[0], 0x6627e8d5u);
  EXPECT_EQ(zero.word[1], 0xe169c58du);
  EXPECT_EQ(zero.word[2], 0xbc57ac4cu);
  EXPECT_EQ(zero.word[3], 0x9b00dbd8u);
}

TEST(Philox, UniformsLieInsideTheOpenInterval) {
  EXPECT_GT(uniform_of(0), 0.0);
  EXPECT_LT(uniform_of(0xffffffffu), 1.0);
}

TEST(Philox, GateCountersOfDifferentRowsNeverMeet) {
  // T = 5 has two quads a row: row 0 uses counters 0 and 1, row 1 uses 2 and 3.
  EXPECT_EQ(gate_counter(0, 0, 0, 1, 3, 5), 1u);
  EXPECT_EQ(gate_counter(0, 0, 1, 0, 3, 5), 2u);
  EXPECT_EQ(gate_counter(0, 1, 0, 0, 3, 5), 10u);
  EXPECT_EQ(gate_counter(1, 0, 0, 0, 3, 5), 30u);
}

}  // namespace
}  // namespace openwork
