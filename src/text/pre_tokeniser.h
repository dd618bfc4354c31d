// How a tokenizer cuts a text into words before merging: the "pre_tokenizer" of tokenizer.json.
// Known: ByteLevel, Split, Digits, Punctuation, Whitespace, WhitespaceSplit, Sequence. Every one of them is a
// regular expression and what happens to its matches, so a pre-tokeniser is a list of such stages.
#pragma once
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/pattern.h"

namespace openwork {

// GPT-2's words, which ByteLevel cuts a text into.
inline constexpr std::string_view kGpt2Words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// What becomes of the matches: they go, stand alone, join the text before or after, or join their like.
enum class SplitBehaviour { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

class PreTokeniser {
 public:
  // Fails, naming the kind and `where`, on one that is not known or is not byte-level.
  PreTokeniser(const nlohmann::json& specification, const std::string& where);

  // Calls visit(word) for the words of `text` (valid UTF-8), none of them empty, in order, as plain bytes.
  using Visit = std::function<void(std::string_view)>;
  void for_each_word(std::string_view text, MatchScratch& scratch, const Visit& visit) const;

 private:
  enum class Kind { kSplit, kPrefixSpace, kWriteBytes };
  struct Stage {
    Kind kind = Kind::kSplit;
    std::vector<Pattern> pattern;  // one, for kSplit
    SplitBehaviour behaviour = SplitBehaviour::kIsolated;
    bool invert = false;  // the text between matches counts as the matches
  };

  void add(const nlohmann::json& specification, const std::string& where, int depth);
  void add_byte_level(const nlohmann::json& specification, const std::string& where);
  void add_split(Pattern pattern, SplitBehaviour behaviour, bool invert);
  void run_from(size_t stage, std::string_view word, MatchScratch& scratch, const Visit& visit) const;

  std::vector<Stage> stages_;
  bool writes_bytes_ = false;  // stages follow ByteLevel, so they see the byte alphabet
};

}  // namespace openwork
