#include "base/number_text.h"

#include <gtest/gtest.h>

namespace openwork {
namespace {

TEST(NumberText, PutsThousandsApart) {
  EXPECT_EQ(group_digits(0), "0");
  EXPECT_EQ(group_digits(999), "999");
  EXPECT_EQ(group_digits(1000), "1,000");
  EXPECT_EQ(group_digits(-123456), "-123,456");
  EXPECT_EQ(group_digits(8123456), "8,123,456");
}

}  // namespace
}  // namespace openwork
