// Merging by heap gives what the plain definition gives: again and again the pair of lowest rank, leftmost
// first.
#include "text/byte_pairs.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <random>

namespace openwork {
namespace {

struct Learned {
  std::vector<std::string> bytes;
  std::vector<Merge> merges;
};

// A vocabulary over `letters` with random merges of any two tokens.
Learned random_vocabulary(std::mt19937& random, const std::string& letters, size_t merges) {
  Learned learned;
  for (const char letter : letters) learned.bytes.emplace_back(1, letter);
  for (size_t i = 0; i < merges; ++i) {
    const auto left = static_cast<int32_t>(random() % learned.bytes.size());
    const auto right = static_cast<int32_t>(random() % learned.bytes.size());
    learned.merges.push_back({left, right, static_cast<int32_t>(learned.bytes.size())});
    learned.bytes.push_back(learned.bytes[static_cast<size_t>(left)] +
                            learned.bytes[static_cast<size_t>(right)]);
  }
  return learned;
}

std::vector<int32_t> merge_plainly(const Learned& learned, const std::string& word) {
  std::map<std::pair<int32_t, int32_t>, size_t> ranks;
  for (size_t rank = 0; rank < learned.merges.size(); ++rank)
    ranks[{learned.merges[rank].left, learned.merges[rank].right}] = rank;
  std::vector<int32_t> tokens;
  for (const char letter : word)
    for (size_t id = 0; id < learned.bytes.size(); ++id)
      if (learned.bytes[id] == std::string(1, letter)) tokens.push_back(static_cast<int32_t>(id));
  while (true) {
    size_t best = learned.merges.size(), at = 0;
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
      const auto rank = ranks.find({tokens[i], tokens[i + 1]});
      if (rank != ranks.end() && rank->second < best) best = rank->second, at = i;
    }
    if (best == learned.merges.size()) return tokens;
    tokens[at] = learned.merges[best].result;
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

TEST(BytePairs, MergesAsThePlainDefinitionDoes) {
  std::mt19937 random(4);
  MergeScratch scratch;
  for (int round = 0; round < 50; ++round) {
    const Learned learned = random_vocabulary(random, "abc", 20);
    const BytePairs pairs(learned.bytes, learned.merges, {});
    scratch.cache = WordCache();
    for (int i = 0; i < 50; ++i) {
      std::string word(1 + random() % 30, 'a');
      for (char& letter : word) letter = "abc"[random() % 3];
      std::vector<int32_t> tokens;
      pairs.append_tokens(word, scratch, tokens);
      EXPECT_EQ(tokens, merge_plainly(learned, word)) << word;
      std::vector<int32_t> again;  // now out of the cache
      pairs.append_tokens(word, scratch, again);
      EXPECT_EQ(again, tokens);
    }
  }
}

TEST(BytePairs, TakesLongWordsInNearlyLinearTime) {
  std::mt19937 random(5);
  const Learned learned = random_vocabulary(random, "ab", 30);
  const BytePairs pairs(learned.bytes, learned.merges, {});
  const auto seconds = [&](size_t length) {
    MergeScratch scratch;
    std::vector<int32_t> tokens;
    const auto start = std::chrono::steady_clock::now();
    pairs.append_tokens(std::string(length, 'a'), scratch, tokens);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  seconds(1000);
  EXPECT_LT(seconds(1'000'000), 20.0);  // the square of it would take hours
}

TEST(BytePairs, StartsItsCacheOverWhenFullAndStaysRight) {
  const Learned learned = {{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}, {}};
  const BytePairs pairs(learned.bytes, learned.merges, {});
  MergeScratch scratch;
  for (int round = 0; round < 2; ++round)
    for (int i = 0; i < 150'000; ++i) {
      const std::string word = std::to_string(i);
      std::vector<int32_t> tokens;
      pairs.append_tokens(word, scratch, tokens);
      ASSERT_EQ(tokens.size(), word.size());
      for (size_t d = 0; d < word.size(); ++d) ASSERT_EQ(tokens[d], word[d] - '0');
    }
}

}  // namespace
}  // namespace openwork
