#include "text/added_tokens.h"

#include <algorithm>

#include "base/utf8.h"
#include "text/unicode_sets.h"

namespace openwork {
namespace {

constexpr const char* kWhere = "added tokens";

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

size_t character_before(std::string_view text, size_t at) {
  do --at;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80);
  return at;
}

size_t skip_spaces_back(std::string_view text, size_t at) {
  while (at > 0) {
    const size_t before = character_before(text, at);
    size_t read = before;
    if (!is_space(next_code_point(text, read))) break;
    at = before;
  }
  return at;
}

size_t skip_spaces(std::string_view text, size_t at) {
  while (at < text.size()) {
    size_t next = at;
    if (!is_space(next_code_point(text, next))) break;
    at = next;
  }
  return at;
}

}  // namespace

AddedTokenFinder::AddedTokenFinder()
    : nodes_(1), word_start_(Pattern::native("\\A[" + rust_word_members() + "]", kWhere)) {}

void AddedTokenFinder::add(const AddedToken& token, std::string_view written) {
  if (written.empty()) return;
  uint32_t node = 0;
  for (const char c : written) {
    const auto byte = static_cast<uint8_t>(c);
    uint32_t child = child_of(node, byte);
    if (child == 0) {
      child = static_cast<uint32_t>(nodes_.size());
      nodes_.emplace_back();
      nodes_[node].children.emplace_back(byte, child);
      if (node == 0) first_[byte] = child;
    }
    node = child;
  }
  nodes_[node].token = static_cast<int32_t>(tokens_.size());
  tokens_.push_back(token);
}

uint32_t AddedTokenFinder::child_of(uint32_t node, uint8_t byte) const {
  if (node == 0) return first_[byte];
  for (const auto& [edge, child] : nodes_[node].children)
    if (edge == byte) return child;
  return 0;
}

bool AddedTokenFinder::find_next(std::string_view text, size_t& start, size_t& end,
                                 const AddedToken*& token) const {
  for (; start < text.size(); ++start) {
    uint32_t node = first_[static_cast<uint8_t>(text[start])];
    int32_t longest = -1;
    for (size_t at = start + 1; node != 0; ++at) {
      if (nodes_[node].token >= 0) {
        longest = nodes_[node].token;
        end = at;
      }
      node = at < text.size() ? child_of(node, static_cast<uint8_t>(text[at])) : 0;
    }
    if (longest >= 0) {
      token = &tokens_[static_cast<size_t>(longest)];
      return true;
    }
  }
  return false;
}

bool AddedTokenFinder::is_single_word(std::string_view text, size_t start, size_t end,
                                      MatchScratch& scratch) const {
  size_t from = 0, to = 0;
  if (start > 0) {
    const size_t before = character_before(text, start);
    if (word_start_.find(text.substr(before, start - before), 0, scratch, from, to)) return false;
  }
  return end == text.size() || !word_start_.find(text.substr(end), 0, scratch, from, to);
}

void AddedTokenFinder::split(std::string_view text, MatchScratch& scratch,
                             std::vector<TextPart>& parts) const {
  size_t done = 0, found = 0, found_end = 0;
  const AddedToken* token = nullptr;
  while (!tokens_.empty() && find_next(text, found, found_end, token)) {
    size_t start = found, end = found_end;
    found = found_end;  // matches do not overlap, whether they are used or not
    if (token->single_word && !is_single_word(text, start, end, scratch)) continue;
    if (token->strip_left) start = std::max(skip_spaces_back(text, start), done);
    if (token->strip_right) end = skip_spaces(text, end);
    if (done < start) parts.push_back({text.substr(done, start - done), -1});
    parts.push_back({text.substr(start, end - start), token->id});
    done = end;
  }
  if (done < text.size()) parts.push_back({text.substr(done), -1});
}

}  // namespace openwork
