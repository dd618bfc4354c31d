#include "io/json.h"

#include "io/test_files.h"

namespace openwork {
namespace {

using nlohmann::json;

TEST(Json, ReadsWhatNlohmannReads) {
  const std::string text =
      R"({"a": [1, -2, 3.5, true, null, "é\n", {}], "b": {"c": [[]]}, "big": 18446744073709551615})";
  EXPECT_EQ(parse_json(text, "text"), json::parse(text));
  EXPECT_EQ(parse_json("[]", "text"), json::array());
  EXPECT_EQ(parse_json(" 7 ", "text"), json(7));
}

TEST(Json, KeepsTheLastOfTwoMembersUnlessToldToRefuse) {
  EXPECT_EQ(parse_json(R"({"a": 1, "a": 2})", "text"), (json{{"a", 2}}));
  expect_bad_input("the name 'a' stands twice",
                   [] { parse_json(R"({"a": 1, "a": 2})", "text", DuplicateKeys::kRefuse); });
}

TEST(Json, SaysLineAndByteOfAMistake) {
  expect_bad_input("not valid JSON at line 3, byte 15: unexpected",
                   [] { parse_json("{\n\"a\": 1,\n\"b\" 2}", "text"); });
  expect_bad_input("unexpected end of input", [] { parse_json("{\"a\": [1, 2", "text"); });
  expect_bad_input("not valid JSON", [] { parse_json("", "text"); });
  expect_bad_input("not valid JSON", [] { parse_json("{} {}", "text"); });
  expect_bad_input("not valid JSON", [] { parse_json("[1e999]", "text"); });
}

TEST(Json, KeepsErrorsShortHoweverLongTheText) {
  try {
    parse_json("{\"" + std::string(1000000, 'x') + "\" 1}", "text");
    FAIL();
  } catch (const Error& error) {
    EXPECT_LT(std::strlen(error.what()), 300u);
  }
}

TEST(Json, RefusesInvalidUtf8) {
  expect_bad_input("invalid UTF-8 at line 2, byte 4", [] { parse_json("{\n\"\xff\": 1}", "text"); });
}

TEST(Json, RefusesDeepNesting) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_NO_THROW(parse_json(nested(kMaxJsonDepth), "text"));
  expect_bad_input("nested more than 128 levels", [&] { parse_json(nested(kMaxJsonDepth + 1), "text"); });
  expect_bad_input("nested more than 128 levels", [] { parse_json(std::string(10000000, '['), "text"); });
}

TEST(Json, NamesTheFile) {
  const TestFolder folder;
  EXPECT_EQ(read_json_file(folder.write("good.json", "{\"a\": 1}"))["a"], 1);
  expect_bad_input("config.json", [&] { read_json_file(folder.write("config.json", "{")); });
  expect_bad_input("no such file", [&] { read_json_file(folder / "absent.json"); });
}

}  // namespace
}  // namespace openwork
