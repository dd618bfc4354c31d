#include "text/word_cache.h"

#include <algorithm>
#include <cstring>

namespace openwork {
namespace {

constexpr size_t kSlots = size_t{1} << 17;  // 3 MB; a word takes one
constexpr size_t kMostWords = kSlots / 2;
constexpr size_t kLongestWord = 64;  // longer ones seldom come twice

uint64_t read_word(const char* from, size_t length) {
  uint64_t value = 0;
  std::memcpy(&value, from, length);
  return value;
}

uint64_t fold(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

}  // namespace

WordCache::WordCache() : slots_(kSlots) {}

uint64_t WordCache::hash(std::string_view word) {
  constexpr uint64_t kFirst = 0xa0761d6478bd642full, kSecond = 0xe7037ed1a0b428dbull;
  uint64_t state = word.size() * kFirst;
  const char* at = word.data();
  size_t left = word.size();
  for (; left > 8; left -= 8, at += 8) state = fold(state ^ read_word(at, 8), kSecond);
  return fold(state ^ read_word(at, left), kFirst);
}

std::span<const int32_t> WordCache::find(std::string_view word, uint64_t hash, bool& found) const {
  for (size_t at = hash & (kSlots - 1); slots_[at].word_length != 0; at = (at + 1) & (kSlots - 1)) {
    const Slot& slot = slots_[at];
    if (slot.hash == hash && slot.word_length == word.size() &&
        std::memcmp(words_.data() + slot.word_at, word.data(), word.size()) == 0) {
      found = true;
      return {tokens_.data() + slot.tokens_at, slot.token_count};
    }
  }
  found = false;
  return {};
}

void WordCache::insert(std::string_view word, uint64_t hash, std::span<const int32_t> tokens) {
  if (word.empty() || word.size() > kLongestWord) return;
  if (used_ >= kMostWords) clear();
  size_t at = hash & (kSlots - 1);
  while (slots_[at].word_length != 0) at = (at + 1) & (kSlots - 1);
  slots_[at] = {hash, static_cast<uint32_t>(words_.size()), static_cast<uint32_t>(tokens_.size()),
                static_cast<uint16_t>(word.size()), static_cast<uint16_t>(tokens.size())};
  words_ += word;
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  ++used_;
}

void WordCache::clear() {
  std::fill(slots_.begin(), slots_.end(), Slot{});
  words_.clear();
  tokens_.clear();
  used_ = 0;
}

}  // namespace openwork
