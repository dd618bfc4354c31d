#include "serve/training_log.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace openwork::serve {
namespace {

namespace fs = std::filesystem;

class TrainingLogTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "openwork-run-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(folder_); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::app | std::ios::binary) << text;
  }
  fs::path folder_;
};

TEST_F(TrainingLogTest, IsFollowedLineByLineWhileItGrows) {
  const TrainingLog log(folder_);
  EXPECT_EQ(log.read(0)["lines"].size(), 0u);
  write("metrics.jsonl", "{\"step\":1}\n{\"step\":2}\n{\"ste");
  nlohmann::json first = log.read(0);
  ASSERT_EQ(first["lines"].size(), 2u);
  EXPECT_TRUE(first["result"].is_null());
  write("metrics.jsonl", "p\":3}\n");
  const nlohmann::json second = log.read(first["next"]);
  ASSERT_EQ(second["lines"].size(), 1u);
  EXPECT_EQ(second["lines"][0]["step"], 3);
  EXPECT_EQ(log.read(second["next"])["lines"].size(), 0u);
  write("result.json", "{\"verb\":\"sparsify\"}");
  EXPECT_EQ(log.read(second["next"])["result"]["verb"], "sparsify");
}

TEST_F(TrainingLogTest, ARunEndsWithItsReportUntilItIsResumed) {
  write("metrics.jsonl", "{\"step\":20}\n");
  const TrainingLog log(folder_);
  EXPECT_FALSE(log.read(0)["ended"]);
  write("report.json", R"({"control": {}, "sparse": {"nats_per_token": 3.5, "training": {"steps": 20}}})");
  EXPECT_TRUE(log.read(0)["ended"]);
  EXPECT_EQ(log.read(0)["result"]["nats_per_token"], 3.5);
  write("metrics.jsonl", "{\"step\":30}\n");
  EXPECT_FALSE(log.read(0)["ended"]);
  EXPECT_TRUE(log.read(0)["result"].is_null());
}

TEST_F(TrainingLogTest, BeginsAnewWhereTheRunDid) {
  write("metrics.jsonl", "{\"step\":1}\n");
  EXPECT_EQ(TrainingLog(folder_).read(1000)["lines"].size(), 1u);
  EXPECT_EQ(TrainingLog(folder_ / ".").name(), folder_.filename().string());
}

TEST_F(TrainingLogTest, TheControlsLastLineIsToldWhileItTrains) {
  const TrainingLog log(folder_);
  EXPECT_TRUE(log.read(0)["control"].is_null());
  fs::create_directories(folder_ / "control");
  write("control/metrics.jsonl", "{\"step\":1");
  EXPECT_TRUE(log.read(0)["control"].is_null()) << "no whole line yet";
  write("control/metrics.jsonl", "}\n");
  EXPECT_EQ(log.read(0)["control"]["step"], 1);
  for (int step = 2; step < 9000; ++step)
    write("control/metrics.jsonl", "{\"step\":" + std::to_string(step) + "}\n");
  write("control/metrics.jsonl", "{\"st");
  EXPECT_EQ(log.read(0)["control"]["step"], 8999) << "of a log longer than what is read of it";
  EXPECT_TRUE(log.read(0)["lines"].empty());
}

TEST_F(TrainingLogTest, APointOfAFrontierIsReadAfterTheOther) {
  write("base.json", "{}");
  fs::create_directories(folder_ / "point-1");
  fs::create_directories(folder_ / "control");
  write("point-1/metrics.jsonl", "{\"step\":1}\n");
  const TrainingLog log(folder_);
  nlohmann::json now = log.read(0);
  EXPECT_EQ(now["points"], 1);
  EXPECT_TRUE(now["frontier"].empty());
  EXPECT_TRUE(now["lines"].empty());
  EXPECT_EQ(log.read(0, 1)["lines"][0]["step"], 1);
  EXPECT_THROW(log.read(0, 2), Error);

  write("point-1/result.json", R"({"nats_per_token": 3.5, "kept_edges": 0.1, "open_heads": 30})");
  fs::create_directories(folder_ / "point-2");
  now = log.read(0, 2);
  EXPECT_EQ(now["points"], 2);
  EXPECT_EQ(now["frontier"],
            (nlohmann::json{
                {{"folder", "point-1"}, {"held_out_loss", 3.5}, {"kept_edges", 0.1}, {"open_heads", 30}}}));
  EXPECT_FALSE(log.read(0, 1)["ended"]);
  write("point-2/result.json", R"({"nats_per_token": 3.6, "kept_edges": 0.05, "open_heads": 20})");
  write("report.json", "{}");
  now = log.read(0, 2);
  EXPECT_EQ(now["frontier"].size(), 2u);
  EXPECT_TRUE(now["ended"]);
}

TEST_F(TrainingLogTest, RefusesAFolderThatIsNotThere) {
  EXPECT_THROW(TrainingLog(folder_ / "absent"), Error);
}

}  // namespace
}  // namespace openwork::serve
