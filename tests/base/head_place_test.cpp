#include "base/head_place.h"

#include <gtest/gtest.h>

#include "base/median.h"

namespace openwork {
namespace {

TEST(HeadPlace, IsReadAsItIsWritten) {
  for (const HeadPlace& place : {HeadPlace{0, 0}, HeadPlace{5, 1}, HeadPlace{31, 127}}) {
    EXPECT_EQ(parse_head_place(place.name()), place) << place.name();
  }
}

TEST(HeadPlace, NothingElseIsOne) {
  for (const char* text :
       {"", "L", "H", "LH", "L5", "H1", "L5H", "LH1", "5H1", "l5h1", "L5H1 ", " L5H1", "L-1H0", "L0H-0",
        "L+1H0", "L5H1H2", "L5F1", "L99999999999999999999H0", "L0x1H0"}) {
    EXPECT_FALSE(parse_head_place(text).has_value()) << text;
  }
}

TEST(Median, IsTheMiddleOneOrTheMeanOfTheTwoMiddleOnes) {
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({9, 1, 2}), 2);
  EXPECT_EQ(median({8, 1, 4, 2}), 3);
}

}  // namespace
}  // namespace openwork
