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

// The same distribution's answers for philox4x32-7.
TEST(Philox, GivesThePublishedAnswersOfSevenRounds) {
  const Philox4 zero = philox<7>(0, 0);
  EXPECT_EQ(zero.word[0], 0x5f6fb709u);
  EXPECT_EQ(zero.word[1], 0x0d893f64u);
  EXPECT_EQ(zero.word[2], 0x4f121f81u);
  EXPECT_EQ(zero.word[3], 0x4f730a48u);
}

TEST(Philox, UniformsLieInsideTheOpenInterval) {
  EXPECT_GT(uniform_of(0), 0.0);
  EXPECT_LT(uniform_of(0xffffffffu), 1.0);
}

TEST(Philox, GateCountersOfDifferentRowsNeverMeet) {
  // T = 9 has two octets a row: row 0 uses counters 0 and 1, row 1 uses 2 and 3.
  EXPECT_EQ(gate_counter(0, 0, 0, 1, 3, 9), 1u);
  EXPECT_EQ(gate_counter(0, 0, 1, 0, 3, 9), 2u);
  EXPECT_EQ(gate_counter(0, 1, 0, 0, 3, 9), 18u);
  EXPECT_EQ(gate_counter(1, 0, 0, 0, 3, 9), 54u);
}

TEST(Philox, EightKeysShareACallInHalvesOfItsWords) {
  const Philox4 draw{{0x00010002u, 0x00030004u, 0x00050006u, 0x00070008u}};
  const uint32_t wanted[] = {2, 1, 4, 3, 6, 5, 8, 7};
  for (uint64_t j = 0; j < 16; ++j) EXPECT_EQ(gate_bits(draw, j), wanted[j % 8]) << j;
  EXPECT_EQ(gate_uniform(0), 0x1p-17);
  EXPECT_EQ(gate_uniform(0xFFFF), 1 - 0x1p-17);
}

}  // namespace
}  // namespace openwork
