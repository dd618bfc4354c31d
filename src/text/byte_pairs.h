// Byte-pair merging: a word's bytes become tokens, then the neighbouring pair whose merge was learned first
// is joined (of equals, the leftmost), until no pair can be. The time grows as n log n with a word's length.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/word_cache.h"

namespace openwork {

struct Merge {
  int32_t left, right, result;
};

// Working memory of one thread: the words it has seen and the lists of a merge.
struct MergeScratch {
  struct Symbol {
    int32_t token, previous, next;  // positions in the list, -1 at its ends; token -1: merged away
  };
  struct Candidate {
    uint32_t rank;
    int32_t at, result;
  };
  WordCache cache;
  std::vector<Symbol> symbols;
  std::vector<Candidate> queue;
  std::vector<int32_t> tokens;
};

class BytePairs {
 public:
  struct Options {
    bool whole_words = false;        // a word that is a token is that token, whatever its merges say
    std::optional<int32_t> unknown;  // for a byte without token; else it is left out
    bool fuse_unknown = false;       // several of those in a row are one
  };

  // `bytes` are the vocabulary's tokens as plain bytes, by id; empty where an id is not a byte string.
  // `merges` in the order they were learned; of equal pairs the last counts.
  BytePairs(const std::vector<std::string>& bytes, const std::vector<Merge>& merges, Options options);

  bool has_every_byte() const;
  void append_tokens(std::string_view word, MergeScratch& scratch, std::vector<int32_t>& out) const;

 private:
  struct Rule {
    uint64_t pair = kNoPair;
    uint32_t rank = 0;
    int32_t result = 0;
  };
  static constexpr uint64_t kNoPair = ~uint64_t{0};

  const Rule* find_rule(int32_t left, int32_t right) const;
  void start_symbols(std::string_view word, MergeScratch& scratch) const;
  void push_candidate(int32_t at, MergeScratch& scratch) const;
  void merge(std::string_view word, MergeScratch& scratch) const;

  Options options_;
  std::array<int32_t, 256> byte_token_{};           // -1 where the vocabulary lacks the byte
  std::vector<Rule> rules_;                         // open addressing, a power of two
  std::unordered_map<std::string, int32_t> words_;  // for whole_words
};

}  // namespace openwork
