// What somebody new to the program meets: names and options that are wrong are said to be before any work, tables have
// heads, tokens show their spaces, every verb says what it wrote, one document is no interval.
#include <gmock/gmock.h>

#include "cli/terminal.h"
#include "cli/training_command.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

TEST(Names, OfNodesAreCheckedBeforeThePromptIsTraced) {
  const auto trace = [](const std::string& option, const std::string& node) {
    return Words{"trace", "tests/data/gpt2", "--tokens", "1,2,3", option, node};
  };
  for (const char* name : {"foo", "L1", "L1F2", "M1@", "T@x", "E@2", "L1F2@3 "})
    expect_refusal(trace("--ablate", name), std::string("'") + name + "' is no node");
  expect_refusal(trace("--boost", "foo=2"), "'foo' is no node");
  expect_refusal(trace("--boost", "L1H1=1e300"), "give a number from -1000000 to 1000000");
  expect_refusal(trace("--ablate", "L99H99"), "no L99H99 in tests/data/gpt2");
  expect_refusal(trace("--ablate", "M99@1"), "no M99@1 in tests/data/gpt2");
  expect_refusal(trace("--ablate", "M1@3"),
                 "no M1@3 in a prompt of 3 tokens; --ablate, --boost; positions are 0 to 2");
  expect_refusal(trace("--boost", "T@99=2"), "no T@99 in a prompt of 3 tokens");
  expect_refusal(trace("--ablate", "L1F3@0"), "no L1F3@0 in gpt2, traced without transcoders");
  expect_refusal(trace("--ablate", "E1@0"), "no E1@0 in gpt2, traced without transcoders");
}

// The first model's trace would be printed by then: nothing is.
TEST(Names, OfNodesAreCheckedInEveryModelBeforeTheFirstIsTraced) {
  const ProgramResult result =
      run_openwork({"trace", "tests/data/gpt2", "openwork-8m", "--tokens", "1,2,3", "--transcoder", "none",
                    "--transcoder", "models/openwork-8m/transcoders", "--ablate", "M1@2"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("no M1@2 in openwork-8m, traced with transcoders"));
}

// No model is worked on before all are asked: the second has fewer heads, and no table's head is printed.
TEST(Names, OfHeadsAreCheckedInEveryModelBeforeTheFirstIsExamined) {
  expect_refusal({"circuit", "openwork-8m", "tests/data/gpt2", "--task", "copy", "--heads", "L7H7"},
                 "no L7H7");
  expect_refusal({"circuit", "openwork-8m", "--task", "copy", "--heads", "foo"}, "'foo' is no part");
  expect_refusal({"eval", "openwork-8m", "--data", "tests/data/nothing.txt"}, "nothing.txt");
}

TEST(Options, ThatWouldDoNothingAreRefused) {
  const auto run = [](const Words& more) {
    Words words = {"run", "nowhere", "x"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  expect_refusal(run({"--what", "logits"}), "--what without --save");
  expect_refusal(run({"--temperature", "0.5"}), "--temperature without --generate");
  expect_refusal(run({"--top-k", "5"}), "--top-k without --generate");
  expect_refusal(run({"--stop", "."}), "--stop without --generate");
  expect_refusal(run({"--generate", "3", "--top", "4"}), "--top with --generate");
  expect_refusal(run({"--generate", "3", "--system", "Be brief."}), "--system without --chat");
  expect_refusal(run({"--generate", "3", "--top-k", "4"}), "--top-k at temperature 0");
  expect_refusal(run({"--generate", "3", "--temperature", "0", "--top-p", "0.5"}),
                 "--top-p at temperature 0");
  expect_refusal({"fetch", "smollm2-135m", "--file", "x"}, "--file with smollm2-135m");
  expect_refusal({"features", "openwork-8m", "--search", ""}, "give at least a letter");
  expect_refusal({"bench", "load", "--shape", "1,1,1,1"}, "--shape with bench load");
  expect_refusal({"bench", "load", "--lora", "4"}, "--lora with bench load");
  expect_refusal({"bench", "attention", "--model", "openwork-8m"}, "--model with bench attention");
  expect_refusal(run({"--generate", "3", "--stop", ""}), "--stop: every text has the empty one in it");
}

TEST(Prompt, GivenTwiceIsCalledThat) {
  const std::string twice = "'Hello' is no model, and --prompts gives the prompts already";
  expect_refusal({"stats", "openwork-8m", "Hello", "--prompts", "sample"}, twice);
  expect_refusal({"trace", "openwork-8m", "Hello", "--prompts", "examples/opposites.jsonl"}, twice);
  expect_refusal({"circuit", "openwork-8m", "Hello", "--task", "copy"},
                 "and --task gives the prompts already");
  expect_refusal({"heads", "openwork-8m", "Hello", "--task", "copy"}, "and --task gives the prompts already");
  expect_refusal({"ablate", "openwork-8m", "Hello", "--task", "copy"},
                 "'Hello' is too much: --task gives the prompts");
  expect_refusal({"run", "openwork-8m", "Hello", "--prompts", "sample"},
                 "a prompt, 'Hello', and --prompts together");
}

TEST(Prompt, ThatIsForgottenIsNotTakenFromTheModels) {
  for (const char* verb : {"heads", "trace", "stats", "scatter"})
    expect_refusal({verb, "openwork-8m", "openwork-8m-sparse"},
                   "no prompt: 'openwork-8m-sparse', the last word, is a model");
  expect_refusal({"heads", "openwork-8m", "Hello", "--preset", "task"},
                 "'Hello' is no model, and --preset task gives the prompts already");
}

TEST(Prompt, OfOneTokenHasNothingToScatter) {
  const ScratchFolder scratch;
  expect_refusal({"scatter", "openwork-8m", "a", "--device", "cpu", "--out", scratch / "s.svg"},
                 "give two heads and two tokens at least");
  EXPECT_FALSE(std::filesystem::exists(scratch / "s.svg"));
}

TEST(Prompts, InAFileAreNamedByTheirLine) {
  const ScratchFolder scratch;
  std::ofstream(scratch / "lines.jsonl") << R"({"prompt": "The cat sat", "target": " on"})"
                                         << "\n"
                                         << R"({"prompt": "The cat sat", "target": "not one token"})"
                                         << "\n";
  expect_refusal({"trace", "openwork-8m", "--prompts", scratch / "lines.jsonl", "--transcoder", "none",
                  "--device", "cpu", "--quiet"},
                 "lines.jsonl line 2, \"target\"");
}

TEST(Data, ThatIsNotWhatItsNameSaysIsCalledThat) {
  const ScratchFolder scratch;
  for (const char* ending : {"xz", "zst"}) {
    const std::string file = scratch / (std::string("text.") + ending);
    std::ofstream(file) << "plain text";
    expect_refusal({"eval", "openwork-8m", "--data", file},
                   std::string("but this is no ") + ending + " file");
  }
}

TEST(Tables, HaveHeadsAndTokensShowTheirSpaces) {
  const ProgramResult next =
      run_openwork({"run", "openwork-8m", "Once upon a", "--top", "3", "--device", "cpu"});
  ASSERT_EQ(next.exit_code, 0) << next.err;
  EXPECT_THAT(next.out,
              testing::MatchesRegex(" +share +logit +id +token\n +1 .*'·day'\n +2 .*'.*'\n +3 .*'.*'\n"));
  const ProgramResult tokens = run_openwork({"tokenize", "openwork-8m", "Hello\n\tworld it"});
  EXPECT_THAT(tokens.out, HasSubstr("     id  token\n"));
  EXPECT_THAT(tokens.out, HasSubstr("  '↵'\n"));
  EXPECT_THAT(tokens.out, HasSubstr("  '⇥'\n"));
  EXPECT_THAT(tokens.out, HasSubstr("  '·it'\n"));
}

TEST(Verbs, SayWhatTheyWrote) {
  const ScratchFolder scratch;
  const std::string model = "tests/data/gpt2", json = scratch / "r.json", file = scratch / "t.safetensors",
                    csv = scratch / "h.csv", figure = scratch / "f.svg";
  const std::vector<std::pair<Words, std::string>> commands = {
      {{"run", model, "--tokens", "1,2,3", "--save", file}, file},
      {{"inspect", model, "--export", file}, file},
      {{"inspect", model, "--json", json}, json},
      {{"stats", model, "--tokens", "1,2,3", "--csv", csv}, csv},
      {{"ablate", model, "--task", "copy", "--prompts", "2", "--out", figure}, figure},
      {{"circuit", model, "--task", "copy", "--prompts", "2", "--out", figure}, figure},
      {{"heads", model, "--tokens", "1,2,3", "--out", figure}, figure}};
  for (const auto& [words, path] : commands) {
    const ProgramResult result = run_openwork(words);
    ASSERT_EQ(result.exit_code, 0) << words[0] << " " << result.err;
    EXPECT_THAT(result.out, HasSubstr("wrote " + path + "\n")) << words[0];
    EXPECT_TRUE(fs::exists(path)) << words[0];
  }
}

TEST(Run, ItsJsonSaysHowItSampled) {
  const ProgramResult run =
      run_openwork({"run", "tests/data/gpt2", "--tokens", "1,2,3", "--generate", "2", "--temperature", "0.5",
                    "--top-k", "7", "--seed", "3", "--json", "-", "--quiet"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const nlohmann::json protocol = run.json().at("protocol");
  EXPECT_EQ(protocol.at("generate"), 2);
  EXPECT_EQ(protocol.at("temperature"), 0.5);
  EXPECT_EQ(protocol.at("top_k"), 7);
  EXPECT_EQ(protocol.at("top_p"), 1);
  EXPECT_EQ(protocol.at("seed"), 3);
  EXPECT_EQ(protocol.at("prompt").at("tokens"), "1,2,3");
  EXPECT_TRUE(protocol.at("chat").is_null());
}

TEST(Interval, OfOneDocumentIsNone) {
  const ScratchFolder scratch;
  std::ofstream text(scratch / "one.txt");
  for (int n = 0; n < 40; ++n) text << "One document alone, and nothing to draw another from. ";
  text.close();
  const Words words = {"eval",   "openwork-8m",      "--data", scratch / "one.txt", "--context",
                       "64",     "--blocks",         "2",      "--device",          "cpu",
                       "--json", scratch / "r.json", "--quiet"};
  const ProgramResult result = run_openwork(words);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("no interval"));
  EXPECT_THAT(result.out, Not(HasSubstr("[")));
  EXPECT_TRUE(
      nlohmann::json::parse(read_file(scratch / "r.json")).at("models").at(0).at("interval").is_null());
}

TEST(Interval, OfOnePromptIsNone) {
  const ScratchFolder scratch;
  const ProgramResult ablate = run_openwork({"ablate", "tests/data/gpt2", "--task", "copy", "--prompts", "1",
                                             "--only", "L0H0", "--json", scratch / "a.json", "--quiet"});
  ASSERT_EQ(ablate.exit_code, 0) << ablate.err;
  EXPECT_THAT(ablate.out, HasSubstr("no interval"));
  EXPECT_TRUE(
      nlohmann::json::parse(read_file(scratch / "a.json")).at("parts").at(0).at("interval").is_null());
  const ProgramResult circuit =
      run_openwork({"circuit", "openwork-8m", "openwork-8m-sparse", "--task", "copy", "--prompts", "1",
                    "--out", scratch / "c.svg", "--quiet"});
  ASSERT_EQ(circuit.exit_code, 0) << circuit.err;
  EXPECT_THAT(circuit.out, HasSubstr("95 % no interval"));
  EXPECT_THAT(circuit.out, Not(HasSubstr("[")));
  EXPECT_THAT(read_file(scratch / "c.svg"), Not(HasSubstr("nan")));
}

TEST(Circuit, ListsEveryHeadItCounts) {
  const ScratchFolder scratch;
  const ProgramResult result = run_openwork({"circuit", "openwork-8m", "--task", "copy", "--prompts", "2",
                                             "--threshold", "0.97", "--json", scratch / "c.json", "--quiet"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json model = nlohmann::json::parse(read_file(scratch / "c.json")).at("models").at(0);
  const auto needed = model.at("heads_at_threshold").get<size_t>();
  EXPECT_GT(needed, 12u) << "more than were listed once";
  for (size_t n = 0; n < needed; ++n)
    EXPECT_THAT(result.out, HasSubstr(model.at("order").at(n).get<std::string>() + " (")) << n;
}

// The counter's line is taken off before a row is printed, and none is wider than the terminal.
TEST(Terminal, RowsAndCountersDoNotShareALine) {
  const std::string text =
      run_on_terminal({"eval", "openwork-8m", "--data", "tests/data/held_out.txt", "--context", "128",
                       "--blocks", "24", "--device", "cpu", "--threads", "1"},
                      60);
  for (const std::string& line : shown_lines(text)) {
    EXPECT_FALSE(line.find("eval openwork-8m") != std::string::npos && line.find("nats") != std::string::npos)
        << line;
    if (line.starts_with("eval ")) {
      EXPECT_LT(line.size(), 60u) << line;
    }
  }
  EXPECT_THAT(text, HasSubstr("\nmodel  ")) << "the table begins on a line of its own";
}

TEST(Terminal, ABarIsAsWideAsThereIsRoom) {
  const ScratchFolder scratch;
  write_small_model(scratch);
  const std::string text =
      run_on_terminal(small_run(scratch, "out", {"--steps", "30", "--log-every", "1"}), 64);
  for (const std::string& line : shown_lines(text)) {
    if (line.starts_with("sparsify")) {
      EXPECT_LT(line.size(), 64u) << line;
    }
  }
}

}  // namespace
}  // namespace openwork
