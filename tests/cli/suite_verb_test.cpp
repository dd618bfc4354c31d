// openwork eval --suite as a person runs it.
#include <gmock/gmock.h>
#include <signal.h>

#include "cli/command.h"
#include "cli/training_command.h"

namespace openwork {
namespace {

using testing::HasSubstr;

const std::vector<std::string> kSmallSuite = {
    "eval",      "openwork-8m", "openwork-8m-sparse", "--suite", "--data",   "tests/data/held_out.txt",
    "--context", "128",         "--prompts",          "12",      "--device", "cpu"};

std::vector<std::string> with(std::vector<std::string> arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(SuiteVerb, GivesAccuracyIntervalsTestsAndProtocol) {
  const ScratchFolder scratch;
  const ProgramResult result =
      run_openwork(with(kSmallSuite, {"--json", "-", "--out", scratch / "suite.svg"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json json = result.json();
  ASSERT_EQ(json["models"].size(), 2u);
  ASSERT_EQ(json["models"][0]["tests"].size(), 10u);
  const nlohmann::json copy = json["models"][0]["tests"][0], loss = json["models"][0]["tests"][9];
  EXPECT_EQ(copy["test"], "copy");
  EXPECT_EQ(copy["bins"].front()["at"], 8.0);
  EXPECT_EQ(copy["bins"].back()["at"], 120.0);  // the whole context
  EXPECT_EQ(copy["bins"][0]["prompts"], 12);
  EXPECT_EQ(loss["unit"], "nats per token");
  EXPECT_GT(loss["bins"].front()["mean"].get<double>(), loss["bins"].back()["mean"].get<double>());
  for (const nlohmann::json& test : json["models"][0]["tests"]) {
    ASSERT_FALSE(test.contains("left_out")) << test;
    for (const nlohmann::json& bin : test["bins"]) {
      EXPECT_LE(bin["interval"][0].get<double>(), bin["mean"].get<double>());
      EXPECT_GE(bin["interval"][1].get<double>(), bin["mean"].get<double>());
    }
  }
  for (const nlohmann::json& row : json["comparison"]) {
    EXPECT_EQ(row["model"], "openwork-8m-sparse");
    EXPECT_GE(row["p_holm"].get<double>(), row["p"].get<double>());
  }
  EXPECT_EQ(json["protocol"]["context"], 128);
  EXPECT_EQ(json["protocol"]["prompts"], 12);
  EXPECT_THAT(read_file(scratch / "suite.svg"), HasSubstr("<svg"));
}

TEST(SuiteVerb, TheTableHasARowForEachBin) {
  const ProgramResult result =
      run_openwork({"eval", "openwork-8m", "--suite", "--tests", "opposite,loss", "--quiet"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("opposite       all"));
  EXPECT_THAT(result.out, HasSubstr("loss           left out: no held-out text"));
}

TEST(SuiteVerb, AModelWithoutTokenizerIsAskedToCopy) {
  const ProgramResult result = run_openwork(
      {"eval", "tests/data/llama", "tests/data/llama_idle", "--suite", "--prompts", "4", "--json", "-"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json tests = result.json()["models"][1]["tests"];
  EXPECT_TRUE(tests[0].contains("bins"));
  EXPECT_THAT(tests[2]["left_out"].get<std::string>(), HasSubstr("no tokenizer"));
}

// Whether a process handles SIGTERM by now: from there on a signal ends the run and not the program.
bool catches_stop(pid_t child) {
  const std::string status = read_file("/proc/" + std::to_string(child) + "/status");
  const size_t at = status.find("SigCgt:");
  return at != std::string::npos && (std::stoull(status.substr(at + 7), nullptr, 16) >> (SIGTERM - 1)) & 1;
}

TEST(SuiteVerb, AnInterruptedRunContinuesToTheSameNumbers) {
  const ScratchFolder scratch;
  const auto arguments = with(kSmallSuite, {"--threads", "1"});
  const std::string whole = scratch / "whole.json", file = scratch / "kept.json";
  ASSERT_EQ(run_openwork(with(arguments, {"--json", whole})).exit_code, 0);
  const pid_t child = start_openwork(with(arguments, {"--json", file}), scratch / "run");
  for (int n = 0; n < 600 && !catches_stop(child); ++n) usleep(20000);
  usleep(500000);  // into the first tests
  kill(child, SIGTERM);
  const int code = await(child);
  if (code == 0) GTEST_SKIP() << "the run was over before the signal came";
  ASSERT_EQ(code, 143) << read_file(scratch / "run.err");
  EXPECT_TRUE(std::filesystem::exists(file + ".sweep"));
  const ProgramResult resumed = run_openwork(with(arguments, {"--json", file}));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("continuing"));
  EXPECT_FALSE(std::filesystem::exists(file + ".sweep"));
  EXPECT_EQ(nlohmann::json::parse(read_file(file)), nlohmann::json::parse(read_file(whole)));
}

TEST(SuiteVerb, RefusesWhatItCannotDo) {
  expect_refusal({"eval", "openwork-8m", "--suite", "--tests", "copy,juggling"}, "no test 'juggling'");
  expect_refusal({"eval", "openwork-8m", "--suite", "--context", "1024"}, "the model's context is 512");
  expect_refusal({"eval", "openwork-8m", "--suite", "--out", "suite.doc"}, "suite.doc");
  expect_refusal({"eval", "openwork-8m", "--suite", "--blocks", "4"}, "--blocks with --suite");
  expect_refusal({"eval", "openwork-8m", "--data", "tests/data/held_out.txt", "--out", "x.svg"},
                 "without --suite");
  expect_refusal({"eval", "openwork-8m", "--suite", "--data", "missing.txt"}, "missing.txt");
  expect_refusal({"eval", "openwork-8m", "openwork-9m", "--suite"}, "openwork-9m");
  expect_refusal({"eval", "openwork-8m", "--suite", "--tests", "loss"},
                 "no test could be run: no held-out text");
}

}  // namespace
}  // namespace openwork
