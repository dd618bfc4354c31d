// Tokens that stand in a text as they are written, such as <|endoftext|>: "added_tokens" of tokenizer.json.
// They are found before anything else, leftmost first and of those the longest; matches never overlap.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/pattern.h"

namespace openwork {

struct AddedToken {
  int32_t id = 0;
  std::string content;       // as written
  bool single_word = false;  // only where no word character touches it
  bool strip_left = false;   // takes the white space before it
  bool strip_right = false;  // takes the white space after it
  bool normalised = false;   // looked for in the normalised text, not in the raw one
  bool special = false;      // left out when decoding on request
};

// A stretch of text: an added token, or (id -1) text between them.
struct TextPart {
  std::string_view text;
  int32_t id;
};

// Finds a set of tokens; `written` below is the form looked for (a token's content, perhaps normalised).
class AddedTokenFinder {
 public:
  AddedTokenFinder();
  void add(const AddedToken& token, std::string_view written);
  bool empty() const { return tokens_.empty(); }

  // Appends the parts of `text` in order; together they are all of it but for empty parts.
  void split(std::string_view text, MatchScratch& scratch, std::vector<TextPart>& parts) const;

 private:
  // A tree of the tokens' bytes: each node's children sorted as they came, and the token that ends there.
  struct Node {
    std::vector<std::pair<uint8_t, uint32_t>> children;
    int32_t token = -1;  // index into tokens_
  };

  uint32_t child_of(uint32_t node, uint8_t byte) const;  // 0 for none (the root is no one's child)
  bool find_next(std::string_view text, size_t& start, size_t& end, const AddedToken*& token) const;
  bool is_single_word(std::string_view text, size_t start, size_t end, MatchScratch& scratch) const;

  std::vector<Node> nodes_;
  std::vector<AddedToken> tokens_;
  std::array<uint32_t, 256> first_{};  // the root's children by byte
  Pattern word_start_;                 // a word character at the start of a text
};

}  // namespace openwork
