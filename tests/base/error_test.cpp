#include "base/error.h"

#include <gtest/gtest.h>

namespace openwork {
namespace {

TEST(Error, IsOneLineOfThreeParts) {
  try {
    fail_input("shape [2, 3]", "tensor 'x\ny'", "check the file");
    FAIL() << "fail_input returned";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "shape [2, 3]; tensor 'x\\x0ay'; check the file");
    EXPECT_EQ(error.exit_code(), 2);
  }
}

TEST(Error, FailureExitsWithOne) {
  try {
    fail("no space left", "out.safetensors", "free some");
    FAIL() << "fail returned";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 1);
  }
}

TEST(Error, PrintableKeepsWellFormedTextAndEscapesTheRest) {
  EXPECT_EQ(printable("naïve 東京"), "naïve 東京");
  EXPECT_EQ(printable("a\xff\x1b[0m"), "a\\xff\\x1b[0m");
  EXPECT_EQ(printable("abcdef", 3), "abc...");
}

}  // namespace
}  // namespace openwork
