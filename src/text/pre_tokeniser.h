// How a tokenizer cuts a text into words before merging: the "pre_tokenizer" of tokenizer.json.
// Known: ByteLevel, Split, Digits, Punctuation, Whitespace, WhitespaceSplit, Sequence. Every one of them is a
// regular expression and what happens to its matches, so a pre-tokeniser is a list of such stages.
#pragma once
#include <deque>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/pattern.h"

namespace openwork {

// What becomes of the matches: they go, stand alone, join the text before or after, or join their like.
enum class SplitBehaviour { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// Working memory of a split; the words it returns point into the text or into it.
struct SplitScratch {
  MatchScratch match;
  std::vector<std::string_view> words, next;
  std::deque<std::string> texts;
};

class PreTokeniser {
 public:
  // Fails, naming the kind and `where`, on one that is not known or is not byte-level.
  PreTokeniser(const nlohmann::json& specification, const std::string& where);

  // The words of `text` (valid UTF-8, not empty), as plain bytes; valid until the next call or while text lives.
  const std::vector<std::string_view>& split(std::string_view text, SplitScratch& scratch) const;

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
  static void run_stage(const Stage& stage, std::string_view word, SplitScratch& scratch);

  std::vector<Stage> stages_;
  bool writes_bytes_ = false;  // stages follow ByteLevel, so they see the byte alphabet
};

}  // namespace openwork
