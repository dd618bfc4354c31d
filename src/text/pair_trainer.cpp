#include "text/pair_trainer.h"

#include <algorithm>
#include <queue>
#include <set>

namespace openwork {
namespace {

uint64_t key_of(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

struct PairState {
  int64_t count = 0;            // occurrences in all words
  std::vector<uint32_t> words;  // that have or had it, perhaps more than once each
};

// A pair and its count when it was queued; counts only fall in between, so the queue never misses the
// largest.
struct Candidate {
  int64_t count;
  uint64_t pair;
  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

class PairLearner {
 public:
  PairLearner(std::vector<CountedWord> words, std::vector<std::string> pieces)
      : words_(std::move(words)), result_{std::move(pieces), {}} {
    for (size_t id = 0; id < result_.pieces.size(); ++id) ids_.emplace(result_.pieces[id], id);
    for (uint32_t word = 0; word < words_.size(); ++word) {
      const std::vector<int32_t>& tokens = words_[word].tokens;
      for (size_t at = 1; at < tokens.size(); ++at)
        change(tokens[at - 1], tokens[at], words_[word].count, word);
    }
    queue_changed();
  }

  LearnedPairs learn(size_t size) {
    while (result_.pieces.size() < size && !queue_.empty()) {
      const Candidate top = queue_.top();
      queue_.pop();
      const int64_t count = pairs_[top.pair].count;
      if (count != top.count) {
        if (count > 0) queue_.push({count, top.pair});
        continue;
      }
      if (top.count < 1) break;
      learn_pair(top.pair);
    }
    return std::move(result_);
  }

 private:
  void learn_pair(uint64_t pair) {
    const auto left = static_cast<int32_t>(pair >> 32), right = static_cast<int32_t>(pair & 0xffffffff);
    std::string piece =
        result_.pieces[static_cast<size_t>(left)] + result_.pieces[static_cast<size_t>(right)];
    const auto [it, fresh] = ids_.emplace(piece, result_.pieces.size());
    if (fresh) result_.pieces.push_back(std::move(piece));
    const auto token = static_cast<int32_t>(it->second);
    if (learned_.insert(pair).second) result_.merges.push_back({left, right, token});
    const std::vector<uint32_t> where = std::move(pairs_[pair].words);
    for (const uint32_t word : where) merge(word, left, right, token);
    pairs_[pair] = {};
    queue_changed();
  }

  // Joins every occurrence in a word, leftmost first, and keeps the counts of the neighbours' pairs.
  void merge(uint32_t word, int32_t left, int32_t right, int32_t token) {
    std::vector<int32_t>& tokens = words_[word].tokens;
    const int64_t count = words_[word].count;
    size_t out = 0;
    for (size_t at = 0; at < tokens.size(); ++at) {
      const bool found = at + 1 < tokens.size() && tokens[at] == left && tokens[at + 1] == right;
      if (!found) {
        tokens[out++] = tokens[at];
        continue;
      }
      if (out > 0) {
        change(tokens[out - 1], left, -count, word);
        change(tokens[out - 1], token, count, word);
      }
      if (at + 2 < tokens.size()) {
        change(right, tokens[at + 2], -count, word);
        change(token, tokens[at + 2], count, word);
      }
      tokens[out++] = token;
      ++at;
    }
    tokens.resize(out);
  }

  void change(int32_t left, int32_t right, int64_t count, uint32_t word) {
    const uint64_t key = key_of(left, right);
    PairState& pair = pairs_[key];
    pair.count += count;
    if (count < 0) return;
    if (pair.words.empty() || pair.words.back() != word) pair.words.push_back(word);
    changed_.push_back(key);
  }

  void queue_changed() {
    std::sort(changed_.begin(), changed_.end());
    changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
    for (const uint64_t pair : changed_) {
      if (const int64_t count = pairs_[pair].count; count > 0) queue_.push({count, pair});
    }
    changed_.clear();
  }

  std::vector<CountedWord> words_;
  LearnedPairs result_;
  std::unordered_map<std::string, size_t> ids_;
  std::unordered_map<uint64_t, PairState> pairs_;
  std::priority_queue<Candidate> queue_;
  std::vector<uint64_t> changed_;  // pairs that became more frequent since the queue was last filled
  std::set<uint64_t> learned_;
};

}  // namespace

LearnedPairs learn_pairs(std::vector<CountedWord> words, std::vector<std::string> pieces, size_t size) {
  return PairLearner(std::move(words), std::move(pieces)).learn(size);
}

}  // namespace openwork
