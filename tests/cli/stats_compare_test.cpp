// stats and compare as a person calls them: what comes back, and what bad input gets.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <set>

#include "cli/command.h"

namespace openwork {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

TEST(Stats, FindsTheHeadsThatTheBuiltInModelIsKnownFor) {
  const ProgramResult result =
      run_openwork({"stats", "openwork-8m", "--prompts", "sample", "--threads", "1", "--json", "-"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json json = result.json(), model = json["models"][0];
  ASSERT_EQ(model["heads"].size(), 64u);
  const auto head = [&](const std::string& name) {
    for (const nlohmann::json& one : model["heads"]) {
      if (one["name"] == name) return one;
    }
    return nlohmann::json();
  };
  EXPECT_EQ(head("L6H0")["class"], "induction");
  EXPECT_EQ(head("L6H3")["class"], "induction");
  EXPECT_EQ(head("L5H6")["class"], "previous-token");
  for (const nlohmann::json& one : model["heads"]) {
    EXPECT_NEAR(one["mass"]["mean"].get<double>(), 1, 1e-4)
        << one["name"] << ": a dense head's rows sum to 1";
    EXPECT_EQ(one["density"]["mean"], 1) << one["name"];
  }
  // The later head's keys hold the previous-token head's output: how induction works in this model.
  const nlohmann::json& strongest = model["interactions"]["strongest"];
  const auto pair = std::find_if(strongest.begin(), strongest.end(), [](const nlohmann::json& one) {
    return one["earlier"] == "L5H6" && one["later"] == "L6H0";
  });
  ASSERT_NE(pair, strongest.end());
  EXPECT_EQ((*pair)["side"], "k");
  EXPECT_EQ(json["protocol"]["models"][0]["sha256"].get<std::string>().size(), 64u);
  EXPECT_EQ(json["protocol"]["prompts"]["count"], 24);
  EXPECT_EQ(json["protocol"]["repeat"]["tokens"], 50);
}

TEST(Stats, ComparesModelsOnTheSamePromptsAndWritesEveryForm) {
  const ScratchFolder scratch;
  std::ofstream(scratch / "prompts.jsonl")
      << "{\"text\": \"The cat sat on the mat.\"}\n{\"prompt\": \"One, two, three, one, two\"}\n";
  const ProgramResult result =
      run_openwork({"stats", "openwork-8m", "openwork-8m", "--prompts", scratch / "prompts.jsonl",
                    "--threads", "1", "--out", scratch / "out", "--csv", scratch / "heads.csv", "--markdown",
                    scratch / "heads.md", "--repeat", "10"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("prompt kept edges, share of the pairs"));
  EXPECT_THAT(result.out, HasSubstr("2 prompts; sign flips"));
  const nlohmann::json json = nlohmann::json::parse(read_file(scratch / "out/statistics.json"));
  ASSERT_EQ(json["comparisons"][0]["rows"].size(), 7u);
  for (const nlohmann::json& row : json["comparisons"][0]["rows"]) {
    EXPECT_EQ(row["difference"], 0) << row["key"];
    EXPECT_EQ(row["p_holm"], 1) << row["key"];
  }
  EXPECT_EQ(json["models"][1]["repeat_length"], 10);
  for (const char* file : {"classes.svg", "classes.png", "density.svg", "change.png", "prompts.svg",
                           "heads.csv", "statistics.md"}) {
    EXPECT_TRUE(fs::exists(scratch.path() / "out" / file)) << file;
  }
  EXPECT_EQ(read_file(scratch / "heads.csv"), read_file(scratch / "out/heads.csv"));
}

TEST(Stats, CountsTheGatesOfAGatedModel) {
  const ProgramResult result = run_openwork({"stats", "tests/data/sparse_gpt2_published", "--tokens",
                                             "3,1,4,1,5,9,2,6", "--threads", "1", "--json", "-"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json model = result.json()["models"][0];
  EXPECT_EQ(model["gated"], true);
  double least = 1;
  for (const nlohmann::json& head : model["heads"]) {
    least = std::min(least, head["density"]["mean"].get<double>());
    EXPECT_NEAR(head["density"]["mean"].get<double>() * 35, head["kept"]["mean"].get<double>(), 1e-9)
        << "8 tokens have 35 pairs in rows 1 to 7";
  }
  EXPECT_LT(least, 1);
}

TEST(Stats, SaysOfEachModelHowManyTokensWereRepeated) {
  const ProgramResult result =
      run_openwork({"stats", "tests/data/gpt2", "tests/data/sparse_gpt2_published", "--tokens", "3,1,4,1,5",
                    "--repeat", "100", "--no-interactions", "--threads", "1", "--json", "-"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json json = result.json();
  EXPECT_EQ(json["protocol"]["repeat"]["tokens"], 100) << "as asked for";
  EXPECT_EQ(json["models"][0]["repeat_length"], 32) << "half its context";
}

TEST(Stats, RefusesWhatItCannotMeasure) {
  const ScratchFolder scratch;
  std::ofstream(scratch / "empty.txt") << "\n\n";
  std::ofstream(scratch / "bad.txt") << "caf\xE9\n";
  std::ofstream(scratch / "bad.jsonl") << "{\"question\": \"why\"}\n";
  expect_refusal({"stats", "openwork-8m"}, "no prompt");
  expect_refusal({"stats"}, "MODEL");
  expect_refusal({"stats", "openwork-8m", ""}, "the prompt is empty");
  expect_refusal({"stats", "openwork-8m", "--tokens", "5"}, "a prompt of 1 token");
  expect_refusal({"stats", "openwork-8m", "--prompts", scratch / "missing.txt"}, "missing.txt");
  expect_refusal({"stats", "openwork-8m", "--prompts", scratch / "empty.txt"}, "no prompts");
  expect_refusal({"stats", "openwork-8m", "--prompts", scratch / "bad.txt"}, "invalid UTF-8 at byte 3");
  expect_refusal({"stats", "openwork-8m", "--prompts", scratch / "bad.jsonl"}, "line 1");
  expect_refusal({"stats", "openwork-8m", "--prompts", "sample", "--tokens", "1,2"},
                 "more than one source of prompts");
  expect_refusal({"stats", "openwork-8m", "a b", "--repeat", "1"}, "--repeat");
  expect_refusal({"stats", "openwork-8m", "a b", "--redundancy", "2"}, "--redundancy");
  expect_refusal({"stats", "no-such-model", "a b"}, "no-such-model");
  expect_refusal({"stats", "openwork-8m", "a b c", "--no-interactions", "--threads", "1", "--csv",
                  scratch / "no/such/folder/heads.csv"},
                 "heads.csv");
}

TEST(Compare, MakesAPageThatStandsAlone) {
  const ScratchFolder scratch;
  std::ofstream(scratch / "prompts.txt")
      << "The cat sat on the mat.\nOne, two, three, one, two, three.\nThe dog.\n";
  const ProgramResult result =
      run_openwork({"compare", "openwork-8m", "openwork-8m", "--prompts", scratch / "prompts.txt", "--prompt",
                    "Mary gave the book to John", "--generate", "5", "--task-prompts", "4", "--capability",
                    "4", "--threads", "1", "--out", scratch / "report", "--json", scratch / "compare.json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("index.html"));
  const std::string html = read_file(scratch / "report/index.html");
  for (const char* id : {"found", "models", "cost", "heads", "statistics", "scatter", "circuits", "trace",
                         "text", "protocol"}) {
    EXPECT_THAT(html, HasSubstr("<section id=\"" + std::string(id) + "\">"));
  }
  size_t pictures = 0;
  for (size_t at = html.find("data-head=\"L"); at != std::string::npos;
       at = html.find("data-head=\"L", at + 1))
    ++pictures;
  EXPECT_EQ(pictures, 128u);
  for (const char* file : {"heads", "scatter", "classes", "density", "change", "prompts", "circuit_copy",
                           "effects_copy", "trace"}) {
    for (const char* ending : {".svg", ".png"})
      EXPECT_TRUE(fs::exists(scratch.path() / "report/figures" / (std::string(file) + ending)))
          << file << ending;
  }
  const nlohmann::json json = nlohmann::json::parse(read_file(scratch / "report/comparison.json"));
  EXPECT_EQ(json, nlohmann::json::parse(read_file(scratch / "compare.json")));
  EXPECT_EQ(json["losses"].size(), 2u);
  ASSERT_EQ(json["capabilities"].size(), 2u);
  EXPECT_EQ(json["capabilities"][0]["tests"], json["capabilities"][1]["tests"]);
  EXPECT_THAT(html, HasSubstr("the name that is not repeated before the one that is"));
  EXPECT_EQ(json["tasks"][0]["models"][0]["effects"].size(), 8u);
  EXPECT_EQ(json["tasks"][0]["models"][0]["circuit"], json["tasks"][0]["models"][1]["circuit"]);
  EXPECT_EQ(json["samples"][0]["continuations"][0], json["samples"][0]["continuations"][1]);
  EXPECT_TRUE(json["protocol"].contains("models"));
  ASSERT_EQ(json["trace"].size(), 2u);
  EXPECT_EQ(json["trace"][0]["explanation"], json["trace"][1]["explanation"]);
  EXPECT_FALSE(json["trace"][0]["transcoders"].is_null()) << "the model's own";
  EXPECT_LE(json["trace"][0]["sums"]["effects"].get<double>(), 1e-4);
}

TEST(Compare, ShowsAOneTokenPrompt) {
  const ScratchFolder scratch;
  std::ofstream(scratch / "prompts.txt") << "The cat sat on the mat.\n";
  const ProgramResult result =
      run_openwork({"compare", "openwork-8m", "openwork-8m", "--prompts", scratch / "prompts.txt", "--prompt",
                    "a", "--task", "none", "--generate", "0", "--no-interactions", "--threads", "1", "--out",
                    scratch / "report"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(read_file(scratch / "report/index.html"), HasSubstr("data-head=\"L0H0\""));
  EXPECT_THAT(result.err, HasSubstr("the prompt is not traced: it is one token"));
}

TEST(Compare, SetsEveryModelBesideTheFirst) {
  const ScratchFolder scratch;
  std::ofstream(scratch / "prompts.txt") << "The cat sat on the mat.\nOne, two, three, one, two, three.\n";
  const ProgramResult result =
      run_openwork({"compare", "openwork-8m", "openwork-8m-sparse", "openwork-8m", "--prompts",
                    scratch / "prompts.txt", "--prompt", "Mary gave", "--generate", "0", "--task-prompts",
                    "4", "--no-interactions", "--threads", "1", "--out", scratch / "report"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json json = nlohmann::json::parse(read_file(scratch / "report/comparison.json"));
  ASSERT_EQ(json["losses"].size(), 3u);
  EXPECT_EQ(json["losses"][0]["nats_per_token"], json["losses"][2]["nats_per_token"]);
  EXPECT_EQ(json["tasks"][0]["models"].size(), 3u);
  EXPECT_EQ(json["trace"].size(), 3u);
  EXPECT_THAT(result.out, HasSubstr("openwork-8m-sparse keeps"));
  EXPECT_THAT(result.out, HasSubstr("openwork-8m' keeps 100 % of openwork-8m's attention edges"));
}

TEST(Compare, RefusesWhatItCannotCompare) {
  const ScratchFolder scratch;
  expect_refusal({"compare", "openwork-8m", "--out", scratch / "a"}, "one model");
  expect_refusal({"compare", "openwork-8m", "openwork-8m", "--context", "64", "--out", scratch / "a"},
                 "--context without --data");
  expect_refusal({"compare", "openwork-8m", "no-such-model", "--out", scratch / "b", "--quiet", "--task",
                  "none", "--no-interactions"},
                 "no-such-model");
  expect_refusal({"compare", "openwork-8m", "openwork-8m", "--prompt", "", "--out", scratch / "c", "--quiet",
                  "--task", "none", "--no-interactions"},
                 "the prompt is empty");
  expect_refusal(
      {"compare", "openwork-8m", "openwork-8m", "--prompts", scratch / "missing.txt", "--out", scratch / "d"},
      "missing.txt");
  expect_refusal({"compare", "openwork-8m", "openwork-8m", "--task", "no-such-task", "--out", scratch / "e",
                  "--quiet", "--no-interactions"},
                 "no-such-task");
  std::ofstream(scratch / "file") << "not a folder";
  expect_refusal({"compare", "openwork-8m", "openwork-8m", "--out", scratch / "file/report"},
                 "is not a folder");
}

}  // namespace
}  // namespace openwork
