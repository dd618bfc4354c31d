#include "text/byte_pairs.h"

#include <algorithm>
#include <bit>

namespace openwork {
namespace {

uint64_t pair_of(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

size_t slot_of(uint64_t pair, size_t mask) {
  return ((pair * 0x9E3779B97F4A7C15ull) >> 29) & mask;
}

// For the heap functions, which keep the largest first: the best candidate is the lowest rank, then leftmost.
bool comes_later(const MergeScratch::Candidate& a, const MergeScratch::Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
}

}  // namespace

BytePairs::BytePairs(const std::vector<std::string>& bytes, const std::vector<Merge>& merges, Options options)
    : options_(options) {
  byte_token_.fill(-1);
  for (size_t id = 0; id < bytes.size(); ++id) {
    if (bytes[id].size() == 1) byte_token_[static_cast<uint8_t>(bytes[id][0])] = static_cast<int32_t>(id);
    if (options.whole_words && !bytes[id].empty()) words_.emplace(bytes[id], static_cast<int32_t>(id));
  }
  rules_.resize(std::bit_ceil(merges.size() * 2 + 1));
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const uint64_t pair = pair_of(merges[rank].left, merges[rank].right);
    size_t at = slot_of(pair, rules_.size() - 1);
    while (rules_[at].pair != kNoPair && rules_[at].pair != pair) at = (at + 1) & (rules_.size() - 1);
    rules_[at] = {pair, static_cast<uint32_t>(rank), merges[rank].result};
  }
}

bool BytePairs::has_every_byte() const {
  return std::all_of(byte_token_.begin(), byte_token_.end(), [](int32_t token) { return token >= 0; });
}

const BytePairs::Rule* BytePairs::find_rule(int32_t left, int32_t right) const {
  const uint64_t pair = pair_of(left, right);
  for (size_t at = slot_of(pair, rules_.size() - 1); rules_[at].pair != kNoPair;
       at = (at + 1) & (rules_.size() - 1))
    if (rules_[at].pair == pair) return &rules_[at];
  return nullptr;
}

void BytePairs::append_tokens(std::string_view word, MergeScratch& scratch, std::vector<int32_t>& out) const {
  const uint64_t hash = WordCache::hash(word);
  bool found = false;
  const auto known = scratch.cache.find(word, hash, found);
  if (found) {
    out.insert(out.end(), known.begin(), known.end());
    return;
  }
  scratch.tokens.clear();
  const auto whole = options_.whole_words ? words_.find(std::string(word)) : words_.end();
  if (whole != words_.end()) {
    scratch.tokens.push_back(whole->second);
  } else {
    merge(word, scratch);
  }
  scratch.cache.insert(word, hash, scratch.tokens);
  out.insert(out.end(), scratch.tokens.begin(), scratch.tokens.end());
}

void BytePairs::start_symbols(std::string_view word, MergeScratch& scratch) const {
  scratch.symbols.clear();
  bool last_unknown = false;
  for (const char byte : word) {
    int32_t token = byte_token_[static_cast<uint8_t>(byte)];
    const bool unknown = token < 0;
    if (unknown && (!options_.unknown || (last_unknown && options_.fuse_unknown))) continue;
    if (unknown) token = *options_.unknown;
    last_unknown = unknown;
    const auto at = static_cast<int32_t>(scratch.symbols.size());
    scratch.symbols.push_back({token, at - 1, at + 1});
  }
  if (!scratch.symbols.empty()) scratch.symbols.back().next = -1;
}

void BytePairs::push_candidate(int32_t at, MergeScratch& scratch) const {
  if (at < 0) return;
  const MergeScratch::Symbol& left = scratch.symbols[static_cast<size_t>(at)];
  if (left.next < 0) return;
  const Rule* rule = find_rule(left.token, scratch.symbols[static_cast<size_t>(left.next)].token);
  if (rule == nullptr) return;
  scratch.queue.push_back({rule->rank, at, rule->result});
  std::push_heap(scratch.queue.begin(), scratch.queue.end(), comes_later);
}

void BytePairs::merge(std::string_view word, MergeScratch& scratch) const {
  start_symbols(word, scratch);
  auto& symbols = scratch.symbols;
  auto& queue = scratch.queue;
  queue.clear();
  for (size_t at = 0; at < symbols.size(); ++at) push_candidate(static_cast<int32_t>(at), scratch);
  while (!queue.empty()) {
    std::pop_heap(queue.begin(), queue.end(), comes_later);
    const MergeScratch::Candidate best = queue.back();
    queue.pop_back();
    MergeScratch::Symbol& left = symbols[static_cast<size_t>(best.at)];
    if (left.token < 0 || left.next < 0) continue;
    MergeScratch::Symbol& right = symbols[static_cast<size_t>(left.next)];
    const Rule* rule = find_rule(left.token, right.token);
    if (rule == nullptr || rule->result != best.result) continue;  // the pair has changed since
    left.token = best.result;
    left.next = right.next;
    right.token = -1;
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = best.at;
    push_candidate(left.previous, scratch);
    push_candidate(best.at, scratch);
  }
  for (const auto& symbol : symbols)
    if (symbol.token >= 0) scratch.tokens.push_back(symbol.token);
}

}  // namespace openwork
