#include "train/batches.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "base/error.h"
#include "io/test_files.h"
#include "text/documents.h"

namespace openwork {
namespace {

// 200 documents, each its own few words, and one of them twice.
void write_documents(const std::filesystem::path& path, int from, int to) {
  std::ofstream file(path);
  for (int n = from; n < to; ++n)
    file << fmt::format("{{\"text\": \"document {} speaks of {} things\"}}\n", n, n * 7);
}

std::vector<uint64_t> hashes_of(const std::filesystem::path& shard, const Tokenizer& tokenizer) {
  std::vector<uint64_t> hashes;
  for_each_token_document({shard}, &tokenizer, 0, [&](TokenDocument&& document) {
    hashes.push_back(document.hash);
    return true;
  });
  return hashes;
}

class TrainingData : public testing::Test {
 protected:
  TestFolder folder_;
  Tokenizer tokenizer_ = Tokenizer::from_file("models/openwork-8m");

  PreparedData prepare(const std::string& held_out, const std::filesystem::path& file,
                       int64_t max_tokens = 0) {
    return prepare_data({{file}, held_out, max_tokens, folder_ / "data"}, tokenizer_, 0, 8192);
  }
};

TEST_F(TrainingData, HeldOutDocumentsAreNeverTrainedOn) {
  write_documents(folder_ / "all.jsonl", 0, 200);
  const PreparedData data = prepare("0.1", folder_ / "all.jsonl");
  const auto train = hashes_of(data.train, tokenizer_), held_out = hashes_of(data.held_out, tokenizer_);
  EXPECT_EQ(train.size() + held_out.size(), 200u);
  EXPECT_GT(held_out.size(), 5u);
  for (const uint64_t hash : held_out) EXPECT_TRUE(is_held_out(hash, 10));
  for (const uint64_t hash : train) EXPECT_FALSE(is_held_out(hash, 10));
}

TEST_F(TrainingData, AShareIsHeldOutAsItWasGiven) {
  write_documents(folder_ / "all.jsonl", 0, 1000);
  const auto held_out = hashes_of(prepare("0.4", folder_ / "all.jsonl").held_out, tokenizer_);
  EXPECT_NEAR(static_cast<double>(held_out.size()), 400, 50);
}

TEST_F(TrainingData, DocumentsOfAHeldOutFileAreLeftOutOfTheTrainingFiles) {
  write_documents(folder_ / "all.jsonl", 0, 100);
  write_documents(folder_ / "held.jsonl", 20, 30);
  const PreparedData data = prepare((folder_ / "held.jsonl").string(), folder_ / "all.jsonl");
  const auto train = hashes_of(data.train, tokenizer_), held_out = hashes_of(data.held_out, tokenizer_);
  EXPECT_EQ(held_out.size(), 10u);
  EXPECT_EQ(train.size(), 90u);
  const std::set<uint64_t> trained(train.begin(), train.end());
  for (const uint64_t hash : held_out) EXPECT_FALSE(trained.contains(hash));
}

TEST_F(TrainingData, IsMadeOnceAndAgainWhenTheOptionsChange) {
  write_documents(folder_ / "all.jsonl", 0, 100);
  const PreparedData first = prepare("0.1", folder_ / "all.jsonl");
  const auto made = std::filesystem::last_write_time(first.train);
  prepare("0.1", folder_ / "all.jsonl");
  EXPECT_EQ(std::filesystem::last_write_time(first.train), made);
  prepare("0.2", folder_ / "all.jsonl");
  EXPECT_NE(std::filesystem::last_write_time(first.train), made);
  const PreparedData less = prepare("0.1", folder_ / "all.jsonl", 100);
  EXPECT_LT(less.description.at("train_tokens").get<int64_t>(), 150);
}

TEST_F(TrainingData, RefusesWhatCannotBeMeasuredOrRead) {
  write_documents(folder_ / "few.jsonl", 0, 3);
  EXPECT_THROW(prepare("0.0001", folder_ / "few.jsonl"), Error);
  EXPECT_THROW(prepare("0.9", folder_ / "few.jsonl"), Error);
  EXPECT_THROW(prepare("", folder_ / "missing.jsonl"), Error);
  EXPECT_THROW(prepare_data({{folder_ / "few.jsonl"}, "0.5", 0, folder_ / "data"}, tokenizer_, 0, 100),
               Error);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "data" / "data.json"));
}

TEST_F(TrainingData, EverySampleIsAFunctionOfItsNumber) {
  write_documents(folder_ / "all.jsonl", 0, 200);
  const PreparedData data = prepare("0.1", folder_ / "all.jsonl");
  Batches batches(data.train, 16, 5), again(data.train, 16, 5), other(data.train, 16, 6);
  const int64_t blocks = batches.blocks();
  ASSERT_GT(blocks, 20);
  std::set<int64_t> seen;
  for (int64_t sample = 0; sample < blocks; ++sample) seen.insert(batches.block_of(sample));
  EXPECT_EQ(static_cast<int64_t>(seen.size()), blocks);  // an epoch reads every block once
  const at::Tensor later = again.read(blocks + 3, 4);    // without having read what is before
  EXPECT_TRUE(at::equal(batches.read(blocks, 7).narrow(0, 3, 4), later));
  EXPECT_FALSE(at::equal(batches.read(0, 8), other.read(0, 8)));
  EXPECT_FALSE(at::equal(batches.read(0, 8), batches.read(blocks, 8)));
  EXPECT_EQ(later.size(1), 17);
  EXPECT_THROW(Batches(data.train, 1 << 20, 0), Error);
}

}  // namespace
}  // namespace openwork
