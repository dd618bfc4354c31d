// Learns byte-pair merges from words and how often each occurs (Sennrich et al. 2016): again and again the
// most frequent neighbouring pair becomes a token; of equally frequent ones that with the smaller ids, left
// first, as Hugging Face's trainer has it. The same words give the same merges in whatever order they come.
#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/byte_pairs.h"

namespace openwork {

struct CountedWord {
  std::vector<int32_t> tokens;
  int64_t count = 0;
};

struct LearnedPairs {
  std::vector<std::string> pieces;  // bytes of every token: the given ones, then the learned ones
  std::vector<Merge> merges;
};

// `pieces` are the bytes of the tokens that words are made of. Stops at `size` pieces, or where no pair is
// left. A merge whose bytes a token already has leads to that token.
LearnedPairs learn_pairs(std::vector<CountedWord> words, std::vector<std::string> pieces, size_t size);

}  // namespace openwork
