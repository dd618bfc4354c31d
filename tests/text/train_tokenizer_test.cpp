// Learning a tokenizer: merge for merge what Hugging Face's trainer gives, what counting anew after every
// merge gives, the same on any number of threads, and a tokenizer that gives every text back.
#include "text/train_tokenizer.h"

#include <gmock/gmock.h>

#include <fstream>
#include <map>

#include "base/parallel.h"
#include "base/philox.h"
#include "base/progress.h"
#include "io/test_files.h"
#include "text/pair_trainer.h"
#include "text/tokenizer.h"

namespace openwork {
namespace {

nlohmann::ordered_json learn(const std::filesystem::path& file, int64_t size) {
  set_quiet(true);
  TokenizerTraining training;
  training.files = {file}, training.size = size;
  return train_tokenizer(training);
}

// tests/data/learned_merges.txt: BpeTrainer(vocab_size=600, special_tokens=["<|endoftext|>"],
// initial_alphabet= ByteLevel.alphabet()) of tokenizers 0.23.3 on the documents of tests/data/held_out.txt,
// ByteLevel words.
TEST(LearnedTokenizer, HasTheMergesOfHuggingFacesTrainer) {
  const auto tokenizer = learn("tests/data/held_out.txt", 600);
  std::vector<std::string> wanted;
  std::ifstream file("tests/data/learned_merges.txt");
  for (std::string line; std::getline(file, line);) wanted.push_back(line);
  ASSERT_EQ(wanted.size(), 343u);
  EXPECT_EQ(tokenizer.at("model").at("merges").get<std::vector<std::string>>(), wanted);
  EXPECT_EQ(tokenizer.at("model").at("vocab").size(), 600u);
  EXPECT_EQ(tokenizer.at("model").at("vocab").at("<|endoftext|>"), 0);
}

TEST(LearnedTokenizer, IsTheSameOnAnyNumberOfThreads) {
  const int before = thread_count();
  set_thread_count(1);
  const std::string one = learn("tests/data/held_out.txt", 400).dump();
  set_thread_count(5);
  EXPECT_EQ(learn("tests/data/held_out.txt", 400).dump(), one);
  set_thread_count(before);
}

TEST(LearnedTokenizer, GivesEveryTextBack) {
  const Tokenizer tokenizer =
      Tokenizer::from_json(nlohmann::json::parse(learn("tests/data/held_out.txt", 500).dump()), "test");
  EXPECT_EQ(tokenizer.size(), 500);
  EXPECT_EQ(tokenizer.end_of_text_id(), 0);
  for (uint64_t n = 0; n < 200; ++n) {
    std::string text;
    for (uint64_t at = 0; at < 1 + n % 40; ++at) {
      const uint64_t number = mix_seed(n, at);
      constexpr std::string_view kPieces[] = {
          " the",          "a",  "\n", " ", "9", "\xc3\xa9", "\xe4\xbd\xa0", "\xf0\x9f\x99\x82",
          "<|endoftext|>", "'ll"};
      text += kPieces[number % std::size(kPieces)];
    }
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
}

TEST(LearnedTokenizer, LeavesHeldOutDocumentsOut) {
  const TestFolder folder;
  std::ofstream(folder / "text.txt") << "xyxyxyxy xyxy<|endoftext|>zwzw zwzwzwzw zwzw zwzw zwzw";
  TokenizerTraining training;
  training.files = {folder / "text.txt"}, training.size = 260;
  training.leaves_out = [](std::string_view text) { return text.starts_with("zw"); };
  const auto merges = train_tokenizer(training).at("model").at("merges");
  ASSERT_EQ(merges.size(), 3u);
  EXPECT_EQ(merges.at(0), "x y");
  for (const auto& merge : merges) EXPECT_EQ(merge.get<std::string>().find('z'), std::string::npos);
}

TEST(LearnedTokenizer, StopsWhereThereAreNoMorePairs) {
  const TestFolder folder;
  std::ofstream(folder / "text.txt") << "ab";
  EXPECT_EQ(learn(folder / "text.txt", 1000).at("model").at("vocab").size(), 258u);
}

TEST(LearnedTokenizer, RefusesTooFewTokensAndNoText) {
  const TestFolder folder;
  std::ofstream(folder / "text.txt") << "<|endoftext|>";
  expect_bad_input("a tokenizer of 256 tokens", [&] { learn("tests/data/held_out.txt", 256); });
  expect_bad_input("no text to learn a tokenizer from", [&] { learn(folder / "text.txt", 300); });
}

// The plain way: count every pair of every word before each merge.
std::vector<std::pair<int32_t, int32_t>> learn_plainly(std::vector<CountedWord> words, int32_t next,
                                                       size_t merges) {
  std::vector<std::pair<int32_t, int32_t>> learned;
  while (learned.size() < merges) {
    std::map<std::pair<int32_t, int32_t>, int64_t> counts;
    for (const CountedWord& word : words) {
      for (size_t at = 1; at < word.tokens.size(); ++at)
        counts[{word.tokens[at - 1], word.tokens[at]}] += word.count;
    }
    if (counts.empty()) break;
    auto best = counts.begin();
    for (auto it = counts.begin(); it != counts.end(); ++it) {
      if (it->second > best->second) best = it;  // of equals the first in order stays
    }
    learned.push_back(best->first);
    for (CountedWord& word : words) {
      std::vector<int32_t> joined;
      for (size_t at = 0; at < word.tokens.size(); ++at) {
        const bool found =
            at + 1 < word.tokens.size() && std::pair(word.tokens[at], word.tokens[at + 1]) == best->first;
        joined.push_back(found ? next : word.tokens[at]);
        at += found;
      }
      word.tokens = joined;
    }
    ++next;
  }
  return learned;
}

TEST(LearnedPairs, AreThoseOfCountingAnewAfterEveryMerge) {
  int compared = 0;
  for (uint64_t round = 0; round < 100; ++round) {
    std::vector<CountedWord> words;
    std::vector<std::string> pieces;
    for (char letter = 'a'; letter < 'e'; ++letter) pieces.emplace_back(1, letter);
    for (uint64_t n = 0; n < 12; ++n) {
      CountedWord& word = words.emplace_back();
      word.count = static_cast<int64_t>(1 + mix_seed(round, n) % 5);
      for (uint64_t at = 0; at < 1 + mix_seed(n, round) % 9; ++at)
        word.tokens.push_back(static_cast<int32_t>(mix_seed(round * 100 + n, at) % 4));
    }
    const auto wanted = learn_plainly(words, 4, 8);
    const LearnedPairs learned = learn_pairs(words, pieces, 12);
    // A merge whose bytes are a token already makes no new one; the plain way has no such case in mind.
    if (learned.merges.size() != learned.pieces.size() - 4) continue;
    ++compared;
    ASSERT_EQ(learned.merges.size(), wanted.size()) << round;
    for (size_t n = 0; n < wanted.size(); ++n)
      EXPECT_EQ(std::pair(learned.merges[n].left, learned.merges[n].right), wanted[n]) << round << " " << n;
  }
  EXPECT_GT(compared, 30);
}

}  // namespace
}  // namespace openwork
