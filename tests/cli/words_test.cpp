// Words of a command line are what was typed: in square brackets, after "--", and where a verb is asked for its help.
#include <gmock/gmock.h>

#include "cli/command.h"

namespace openwork {
namespace {

using Words = std::vector<std::string>;

nlohmann::json json_of(const Words& words) {
  const ProgramResult result = run_openwork(words);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.exit_code == 0 ? result.json() : nlohmann::json();
}

TEST(Words, InSquareBracketsAreNoList) {
  const nlohmann::json prompt = {{"prompt", "[1, 2, 3]"}};
  EXPECT_EQ(json_of({"trace", "openwork-8m", "[1, 2, 3]", "--json", "-", "--quiet"})["protocol"]["prompt"],
            prompt);
  EXPECT_EQ(json_of({"stats", "openwork-8m", "[1, 2, 3]", "--json", "-", "--quiet",
                     "--no-interactions"})["protocol"]["prompts"],
            prompt);
  for (const char* verb : {"heads", "scatter", "trace", "stats"})
    expect_refusal({verb, "[a, b]", "a prompt"}, "no model '[a, b]'");
  expect_refusal({"eval", "[a,b]", "--data", "tests/data/held_out.txt"}, "no model '[a,b]'");
  expect_refusal({"circuit", "[a,b]", "--task", "copy"}, "no model '[a,b]'");
  expect_refusal({"compare", "[a,b]", "openwork-8m"}, "no model '[a,b]'");
  expect_refusal({"serve", "[a,b]", "--port", "0"}, "no model '[a,b]'");
  expect_refusal({"tokenize", "openwork-8m", "[x]", "[y]"}, "not expected: [y]");
}

TEST(Words, OfAnOptionAreNoList) {
  EXPECT_EQ(json_of({"run", "openwork-8m", "x", "--generate", "1", "--stop", "[a,b]", "--stop=[c,d]",
                     "--stop", "--", "--stop", "\x1f", "--json", "-", "--quiet"})["protocol"]["stop"],
            nlohmann::json({"[a,b]", "[c,d]", "--", "\x1f"}));
}

TEST(Words, AfterTwoDashesAreNoOptions) {
  for (const std::string text : {"--json", "-x y", "--", "[x]", "++", "help"}) {
    const nlohmann::json result = json_of({"tokenize", "--json", "-", "--", "openwork-8m", text});
    std::string read;
    for (const std::string piece : result["pieces"]) read += piece;
    EXPECT_EQ(read, text);
  }
  EXPECT_EQ(json_of({"trace", "openwork-8m", "--json", "-", "--quiet", "--", "--x y"})["protocol"]["prompt"],
            nlohmann::json({{"prompt", "--x y"}}));
  for (const Words& words :
       {Words{"trace", "nowhere", "--", "--x y"}, Words{"trace", "--", "nowhere", "-x y"},
        Words{"heads", "--out", "none.svg", "nowhere", "--", "--x y"},
        Words{"scatter", "nowhere", "--", "--x y"}, Words{"stats", "nowhere", "--", "--x y"},
        Words{"eval", "--data", "tests/data/held_out.txt", "--", "nowhere"},
        Words{"run", "nowhere", "--", "--x y"}})
    expect_refusal(words, "no model 'nowhere'");
  expect_refusal({"tokenize", "openwork-8m", "a", "--", "--b"}, "not expected: --b");
  expect_refusal({"ablate", "openwork-8m", "--task", "copy", "--", "-x"}, "'-x' is too much");
}

TEST(Words, AfterHelpAreOneVerb) {
  const std::string help = run_openwork({"run", "--help"}).out;
  EXPECT_THAT(help, testing::HasSubstr("--generate"));
  for (const char* word : {"help", "--help", "-h"}) {
    const ProgramResult result = run_openwork({word, "run"});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(result.out, help) << word;
    expect_refusal({word, "run", "eval"}, "'eval' is too much");
    expect_refusal({word, "dance"}, "unknown verb 'dance'");
  }
}

}  // namespace
}  // namespace openwork
