// What a tokenizer does to a text before it looks for words: the "normalizer" of tokenizer.json.
// Known: NFC, NFD, NFKC, NFKD, Lowercase, Prepend, Replace, Sequence, or null for none.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/pattern.h"

namespace openwork {

class Normaliser {
 public:
  Normaliser() = default;  // changes nothing
  // Fails, naming the kind and `where`, on one that is not known.
  Normaliser(const nlohmann::json& specification, const std::string& where);

  bool is_identity() const { return steps_.empty(); }
  // `text` must be valid UTF-8, and so is the result.
  std::string apply(std::string_view text, MatchScratch& scratch) const;

 private:
  enum class Kind { kUnicode, kLowercase, kPrepend, kReplace };
  struct Step {
    Kind kind;
    int unicode_options = 0;        // utf8proc's, for the four normalisation forms
    std::string content;            // what is put in front, or in place of a match
    std::vector<Pattern> patterns;  // one, for Replace
  };

  void add(const nlohmann::json& specification, const std::string& where, int depth);
  void add_replace(const nlohmann::json& specification, const std::string& where);
  static std::string apply_step(const Step& step, std::string_view text, MatchScratch& scratch, size_t limit);

  std::vector<Step> steps_;
};

}  // namespace openwork
