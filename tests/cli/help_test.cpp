// Help, suggestions, completion and man pages: one table of verbs and options behind them all.
#include <gmock/gmock.h>

#include "cli/command.h"

namespace openwork {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Help, OfAVerbByBothWays) {
  const ProgramResult one = run_openwork({"help", "tokenize"}), other = run_openwork({"tokenize", "--help"});
  EXPECT_EQ(one.exit_code, 0);
  EXPECT_EQ(one.out, other.out);
  EXPECT_THAT(one.out, HasSubstr("--ids"));
  EXPECT_EQ(run_openwork({"help"}).out, run_openwork({"--help"}).out);
  expect_refusal({"help", "dance"}, "unknown verb 'dance'");
}

TEST(Help, UsageSaysOneOrMoreInDots) {
  const ProgramResult help = run_openwork({"eval", "--help"});
  EXPECT_THAT(help.out, HasSubstr("MODEL..."));
  EXPECT_THAT(help.out, Not(HasSubstr("(1x)")));
}

TEST(Help, APositionalIsItsNameAlone) {
  for (const char* verb : {"tokenize", "eval", "sparsify", "bench", "completion"}) {
    const std::string help = run_openwork({verb, "--help"}).out;
    EXPECT_THAT(help, HasSubstr("\nPositionals:\n"));
    EXPECT_THAT(help, Not(testing::ContainsRegex("\n  [A-Z]+ TEXT"))) << verb;
  }
}

// The program's own prompts are of many lengths: a figure is the mean over prompts of one.
TEST(Help, OffersSamplePromptsWhereTheyCanBeUsed) {
  EXPECT_THAT(run_openwork({"stats", "--help"}).out, HasSubstr("sample"));
  EXPECT_THAT(run_openwork({"scatter", "--help"}).out, Not(HasSubstr("sample")));
}

TEST(Help, NearNamesAreSuggested) {
  expect_refusal({"evla"}, "did you mean eval?");
  expect_refusal({"tokenise", "openwork-8m", "x"}, "did you mean tokenize?");
  expect_refusal({"tokenize", "openwork-8m", "x", "--quite"}, "did you mean --quiet?");
  expect_refusal({"run", "openwork-8m", "x", "--generat", "5"}, "did you mean --generate?");
  expect_refusal({"run", "openwork-8m", "x", "--frobnicate"}, "unknown option '--frobnicate'");
}

TEST(Completion, ShellsTakeIt) {
  const ScratchFolder scratch;
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const ProgramResult result = run_openwork({"completion", shell});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("sparsify"));
    EXPECT_THAT(result.out, HasSubstr("batch-tokens"));
    EXPECT_THAT(result.out, HasSubstr("no-learn-bias")) << shell;
    std::ofstream(scratch / shell) << result.out;
  }
  const std::string bash =
      "bash -c 'source " + scratch / "bash" +
      "; COMP_WORDS=(openwork run --gene); COMP_CWORD=2; _openwork; [ \"${COMPREPLY[0]}\" = --generate ]'";
  EXPECT_EQ(std::system(bash.c_str()), 0);
  std::ofstream(scratch / "a b.txt") << "";
  const std::string spaces = "bash -c 'cd " + scratch.path().string() +
                             " && source ./bash; COMP_WORDS=(openwork run a); COMP_CWORD=2; _openwork; "
                             "[ \"${#COMPREPLY[@]} ${COMPREPLY[0]}\" = \"1 a b.txt\" ]'";
  EXPECT_EQ(std::system(spaces.c_str()), 0) << "a file's name stays one word";
  if (std::system("command -v zsh >/dev/null") == 0) {
    EXPECT_EQ(std::system(("zsh -n " + scratch / "zsh").c_str()), 0);
  }
  if (std::system("command -v fish >/dev/null") == 0) {
    EXPECT_EQ(std::system(("fish -n " + scratch / "fish").c_str()), 0);
  }
}

TEST(Completion, ManPagesNameEveryOption) {
  const ProgramResult page = run_openwork({"completion", "man", "--verb", "tokenize"});
  ASSERT_EQ(page.exit_code, 0) << page.err;
  EXPECT_TRUE(page.out.starts_with(".TH OPENWORK\\-TOKENIZE 1")) << page.out.substr(0, 80);
  for (const char* option : {"\\-\\-ids", "\\-\\-file", "\\-\\-json"})
    EXPECT_THAT(page.out, HasSubstr(option));
  EXPECT_THAT(page.out, HasSubstr("\nMODEL [TEXT] [options]\n")) << "what is required has no brackets";
  EXPECT_THAT(run_openwork({"completion", "man", "--verb", "sparsify"}).out,
              HasSubstr("\\-\\-learn\\-bias, \\-\\-no\\-learn\\-bias"));
  EXPECT_THAT(run_openwork({"completion", "man"}).out, HasSubstr(".B sparsify"));
  expect_refusal({"completion", "man", "--verb", "dance"}, "no verb 'dance'");
}

}  // namespace
}  // namespace openwork
