#include "analyze/circuits/task.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/error.h"
#include "text/packed_text.h"

namespace openwork {
namespace {

using ::testing::HasSubstr;

class TaskTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { tokenizer_ = new Tokenizer(Tokenizer::from_file("models/openwork-8m")); }

  static TaskVocabulary vocabulary() {
    TaskVocabulary vocabulary;
    vocabulary.tokenizer = tokenizer_;
    vocabulary.size = 8192;
    vocabulary.context = 512;
    return vocabulary;
  }
  static std::string text_of(const std::vector<int64_t>& ids) {
    return tokenizer_->decode({std::vector<int32_t>(ids.begin(), ids.end())});
  }

  // The message with which a file of these lines is refused; empty where it is not.
  static std::string refusal(const std::string& lines) {
    const std::string path = testing::TempDir() + "openwork_task.jsonl";
    std::ofstream(path) << lines;
    try {
      make_task(path, vocabulary(), 0, 0);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2);
      return error.what();
    }
    return "";
  }
  static Task read(const std::string& lines, int64_t prompts = 0) {
    const std::string path = testing::TempDir() + "openwork_task.jsonl";
    std::ofstream(path) << lines;
    return make_task(path, vocabulary(), prompts, 0);
  }

  static Tokenizer* tokenizer_;
};
Tokenizer* TaskTest::tokenizer_ = nullptr;

TEST_F(TaskTest, CopyRepeatsItsFirstHalfAndReadsTheSecond) {
  const Task task = make_task("copy", vocabulary(), 5, 3);
  ASSERT_EQ(task.prompts.size(), 5u);
  for (const TaskPrompt& prompt : task.prompts) {
    ASSERT_EQ(prompt.clean.size(), 51u);
    EXPECT_EQ(prompt.clean[0], 0);
    EXPECT_EQ(prompt.corrupt[0], 0);
    EXPECT_TRUE(std::equal(prompt.clean.begin() + 1, prompt.clean.begin() + 26, prompt.clean.begin() + 26));
    EXPECT_TRUE(std::equal(prompt.clean.begin() + 26, prompt.clean.end(), prompt.corrupt.begin() + 26));
    ASSERT_EQ(prompt.reads.size(), 25u);
    for (const TaskRead& read : prompt.reads) {
      const auto i = static_cast<size_t>(read.position);
      EXPECT_EQ(read.answers, std::vector<int64_t>{prompt.clean[i + 1]});
      EXPECT_EQ(read.wrongs, std::vector<int64_t>{prompt.corrupt[i + 1 - 25]});
    }
    EXPECT_EQ(prompt.reads.front().position, 25);
    EXPECT_EQ(prompt.reads.back().position, 49);
  }
}

TEST_F(TaskTest, EveryBuiltInTaskIsAFunctionOfItsSeed) {
  for (const std::string& name : built_in_tasks()) {
    const Task once = make_task(name, vocabulary(), 12, 7), again = make_task(name, vocabulary(), 12, 7),
               other = make_task(name, vocabulary(), 12, 8);
    bool differs = false;
    for (size_t p = 0; p < 12; ++p) {
      EXPECT_EQ(once.prompts[p].clean, again.prompts[p].clean) << name;
      EXPECT_EQ(once.prompts[p].corrupt, again.prompts[p].corrupt) << name;
      EXPECT_NE(once.prompts[p].clean, once.prompts[p].corrupt) << name;
      differs = differs || once.prompts[p].clean != other.prompts[p].clean;
    }
    EXPECT_TRUE(differs) << name;
  }
}

TEST_F(TaskTest, IndirectObjectsAreTheNameThatComesOnce) {
  const Task task = make_task("ioi", vocabulary(), 40, 1);
  size_t answer_first = 0;
  for (const TaskPrompt& prompt : task.prompts) {
    const int64_t answer = prompt.reads[0].answers[0], wrong = prompt.reads[0].wrongs[0];
    EXPECT_EQ(std::count(prompt.clean.begin(), prompt.clean.end(), answer), 1) << text_of(prompt.clean);
    EXPECT_EQ(std::count(prompt.clean.begin(), prompt.clean.end(), wrong), 2) << text_of(prompt.clean);
    EXPECT_EQ(std::count(prompt.corrupt.begin(), prompt.corrupt.end(), answer), 0);
    EXPECT_EQ(std::count(prompt.corrupt.begin(), prompt.corrupt.end(), wrong), 0);
    EXPECT_EQ(prompt.clean[static_cast<size_t>(prompt.places.at("answer"))], answer);
    EXPECT_EQ(prompt.clean[static_cast<size_t>(prompt.places.at("subject again"))], wrong);
    EXPECT_LT(prompt.places.at("subject"), prompt.places.at("subject again"));
    answer_first += prompt.places.at("answer") < prompt.places.at("subject");
  }
  EXPECT_EQ(answer_first, 20u);  // ABBA as often as BABA
}

TEST_F(TaskTest, AFileMayBePackedAndASetHasEveryTokenOnce) {
  const std::string line = R"({"clean": [1, 2], "corrupt": [1, 3], "answer": [4, 5, 4], "wrong": [6]})";
  const std::filesystem::path folder = std::filesystem::temp_directory_path();
  const std::string path = (folder / fmt::format("openwork-task-{}.jsonl.zst", getpid())).string();
  std::ofstream(path, std::ios::binary) << pack_text(line + "\n" + line + "\n", 3);
  const Task task = make_task(path, vocabulary(), 0, 0);
  std::filesystem::remove(path);
  ASSERT_EQ(task.prompts.size(), 2u);
  EXPECT_EQ(task.prompts[1].reads[0].answers, (std::vector<int64_t>{4, 5}));
}

TEST_F(TaskTest, YearsAboveAreAnswersAndNoTokenIsOnBothSides) {
  const Task task = make_task("greater-than", vocabulary(), 30, 2);
  EXPECT_EQ(task.metric, TaskMetric::kProbabilityDifference);
  for (const TaskPrompt& prompt : task.prompts) {
    std::set<int64_t> answers(prompt.reads[0].answers.begin(), prompt.reads[0].answers.end());
    int lowest_answer = 1000, highest_wrong = -1;
    for (const int64_t id : prompt.reads[0].answers)
      lowest_answer = std::min(lowest_answer, std::stoi(text_of({id})));
    for (const int64_t id : prompt.reads[0].wrongs) {
      EXPECT_FALSE(answers.contains(id));
      highest_wrong = std::max(highest_wrong, std::stoi(text_of({id})));
    }
    EXPECT_GT(lowest_answer, highest_wrong);
    const std::string text = text_of(prompt.clean);
    const std::string year = text.substr(text.find("the year ") + 11, 2);  // the last two digits
    const int shown =
        lowest_answer < 10 && prompt.reads[0].answers.size() < 10 ? year[0] - '0' : std::stoi(year);
    EXPECT_EQ(lowest_answer, shown + 1) << text;
  }
}

TEST_F(TaskTest, ReadsTextsIdsSetsAndPositions) {
  const Task single = read(
      R"({"clean": "When Mary and John", "corrupt": "When John and Mary", "answer": " Mary", "wrong": 1289})");
  EXPECT_EQ(single.metric, TaskMetric::kLogitDifference);
  EXPECT_EQ(single.prompts[0].reads[0].position, 3);
  EXPECT_EQ(single.prompts[0].reads[0].answers, std::vector<int64_t>{2573});
  const Task sets =
      read(R"({"clean": [1, 2, 3], "corrupt": [1, 5, 3], "answer": [4, 5], "wrong": [" Mary"]})");
  EXPECT_EQ(sets.metric, TaskMetric::kProbabilityDifference);
  EXPECT_EQ(sets.prompts[0].reads[0].wrongs, std::vector<int64_t>{2573});
  const Task placed =
      read(R"({"clean": [1, 2, 3], "corrupt": [1, 5, 3], "at": [0, 2], "answer": [4, 5], "wrong": [6, 5]})");
  EXPECT_EQ(placed.metric, TaskMetric::kLogitDifference);
  ASSERT_EQ(placed.prompts[0].reads.size(), 2u);
  EXPECT_EQ(placed.prompts[0].reads[1].answers, placed.prompts[0].reads[1].wrongs);
  // A token beside a set is a set of one.
  const Task placed_sets = read(
      R"({"clean": [1, 2, 3], "corrupt": [1, 5, 3], "at": [0, 2], "answer": [[4], [5, 7]], "wrong": [6, [8]]})");
  EXPECT_EQ(placed_sets.metric, TaskMetric::kProbabilityDifference);
  EXPECT_EQ(placed_sets.prompts[0].reads[1].answers, (std::vector<int64_t>{5, 7}));
}

TEST_F(TaskTest, TakesTheFirstPromptsOfAFile) {
  const std::string line = R"({"clean": [1, 2], "corrupt": [1, 5], "answer": 4, "wrong": 6})";
  EXPECT_EQ(read(line + "\n\n" + line + "\n" + line + "\n", 2).prompts.size(), 2u);
}

TEST_F(TaskTest, RefusesWhatIsNoTask) {
  EXPECT_THAT(refusal(R"({"clean": [1, 2], "corrupt": [1], "answer": 4, "wrong": 6})"),
              HasSubstr("clean has 2 tokens and corrupt 1"));
  EXPECT_THAT(refusal("{\"clean\": [1, 2], \"corrupt\": [1, 2], \"answer\": 4, \"wrong\": 6}\n{\"clean\": "
                      "[1], \"corrupt\": [1], \"answer\": 4, \"wrong\": 6}"),
              HasSubstr("1 tokens, but the first prompt has 2"));
  EXPECT_THAT(refusal(R"({"clean": "a b", "corrupt": "a c", "answer": " Mary went away", "wrong": 6})"),
              HasSubstr("which is"));
  EXPECT_THAT(refusal(R"({"clean": [1, 9000], "corrupt": [1, 2], "answer": 4, "wrong": 6})"),
              HasSubstr("token id 9000"));
  EXPECT_THAT(refusal(R"({"clean": [1, 2], "corrupt": [1, 2], "answer": -4, "wrong": 6})"),
              HasSubstr("token id -4"));
  EXPECT_THAT(refusal(R"({"clean": [1, 2], "corrupt": [1, 2], "answer": 4})"), HasSubstr("no \"wrong\""));
  EXPECT_THAT(refusal(R"({"clean": [1, 2], "corrupt": [1, 2], "at": [2], "answer": [4], "wrong": [6]})"),
              HasSubstr("position 2 is read"));
  EXPECT_THAT(refusal(R"({"clean": [1, 2], "corrupt": [1, 2], "at": [0, 1], "answer": [4], "wrong": [6]})"),
              HasSubstr("\"at\" has 2 positions"));
  EXPECT_THAT(refusal(R"({"clean": [], "corrupt": [], "answer": 4, "wrong": 6})"), HasSubstr("empty"));
  EXPECT_THAT(refusal(R"({"clean": [1], "corrupt": [1], "answer": [], "wrong": [6]})"),
              HasSubstr("empty set"));
  for (const char* rest :
       {R"("answer": [4, [5, 6]], "wrong": [7, 8])", R"("answer": [[4], 5], "wrong": [7, 8])",
        R"("answer": [4, 5], "wrong": [[7], 8])"}) {
    EXPECT_THAT(refusal(R"({"clean": [1, 2], "corrupt": [1, 2], "at": [0, 1], )" + std::string(rest) + "}"),
                HasSubstr("single answers and sets of answers are mixed; line 1"));
  }
  EXPECT_THAT(refusal("[1, 2]"), HasSubstr("not an object"));
  EXPECT_THAT(refusal("{\"clean\": "), HasSubstr("line 1"));
  EXPECT_THAT(refusal(""), HasSubstr("no task"));
}

TEST_F(TaskTest, TextTasksNeedATokenizer) {
  TaskVocabulary bare = vocabulary();
  bare.tokenizer = nullptr;
  EXPECT_EQ(make_task("copy", bare, 2, 0).prompts.size(), 2u);
  EXPECT_THROW(make_task("ioi", bare, 2, 0), Error);
}

}  // namespace
}  // namespace openwork
