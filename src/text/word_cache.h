// Words already merged and their tokens: a hash table of bounded size that starts over when it is full.
// Not shared between threads: each borrows its own.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace openwork {

class WordCache {
 public:
  WordCache();

  static uint64_t hash(std::string_view word);

  // The word's tokens, if it is known; `found` says so, as a word may have none.
  std::span<const int32_t> find(std::string_view word, uint64_t hash, bool& found) const;
  void insert(std::string_view word, uint64_t hash, std::span<const int32_t> tokens);

 private:
  struct Slot {
    uint64_t hash = 0;
    uint32_t word_at = 0, tokens_at = 0;
    uint16_t word_length = 0, token_count = 0;  // word_length 0: the slot is free
  };

  void clear();

  std::vector<Slot> slots_;
  size_t used_ = 0;
  std::string words_;
  std::vector<int32_t> tokens_;
};

}  // namespace openwork
