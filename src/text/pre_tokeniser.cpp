#include "text/pre_tokeniser.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/byte_alphabet.h"
#include "text/specification.h"
#include "text/unicode_sets.h"

namespace openwork {
namespace {

using nlohmann::json;
constexpr int kDeepestSequence = 16;

SplitBehaviour read_behaviour(const json& specification, const std::string& where) {
  static const std::map<std::string, SplitBehaviour> kBehaviours = {
      {"Removed", SplitBehaviour::kRemoved},
      {"Isolated", SplitBehaviour::kIsolated},
      {"MergedWithPrevious", SplitBehaviour::kMergedWithPrevious},
      {"MergedWithNext", SplitBehaviour::kMergedWithNext},
      {"Contiguous", SplitBehaviour::kContiguous},
  };
  const std::string name = read_text(specification, "behavior", where);
  const auto it = kBehaviours.find(name);
  if (it == kBehaviours.end())
    fail_input(fmt::format("split behaviour {} is not known", printable(name)), where,
               "use Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
  return it->second;
}

Pattern set_pattern(const std::string& members, const std::string& where) {
  return Pattern::native("[" + members + "]", where);
}

// Parts of a text in order; `matched` after inversion.
struct Part {
  size_t start, end;
  bool matched;
};

// Takes parts one by one and hands on words as the behaviour says; the last word may still grow.
template <typename Visit>
class WordJoiner {
 public:
  WordJoiner(std::string_view text, SplitBehaviour behaviour, const Visit& visit)
      : text_(text), behaviour_(behaviour), visit_(visit) {}

  void take(const Part& part) {
    if (behaviour_ == SplitBehaviour::kRemoved && part.matched) return;
    if (open_ && joins(part)) {
      end_ = part.end;
    } else {
      emit();
      open_ = true;
      start_ = part.start;
      end_ = part.end;
    }
    last_matched_ = part.matched;
  }

  void emit() {
    if (open_ && start_ < end_) visit_(text_.substr(start_, end_ - start_));
    open_ = false;
  }

 private:
  // Whether `part` belongs to the word before it. Of several matches in a row, MergedWithPrevious joins the
  // first to the text before them and MergedWithNext the last to the text after.
  bool joins(const Part& part) const {
    switch (behaviour_) {
      case SplitBehaviour::kContiguous:
        return part.matched == last_matched_;
      case SplitBehaviour::kMergedWithPrevious:
        return part.matched && !last_matched_;
      case SplitBehaviour::kMergedWithNext:
        return !part.matched && last_matched_;
      default:
        return false;
    }
  }

  std::string_view text_;
  SplitBehaviour behaviour_;
  const Visit& visit_;
  bool open_ = false, last_matched_ = false;
  size_t start_ = 0, end_ = 0;
};

template <typename Visit>
void split_word(const Pattern& pattern, SplitBehaviour behaviour, bool invert, std::string_view text,
                MatchScratch& scratch, const Visit& visit) {
  WordJoiner joiner(text, behaviour, visit);
  size_t last = 0;
  pattern.for_each_match(text, scratch, [&](size_t start, size_t end) {
    if (last != start) joiner.take({last, start, invert});
    joiner.take({start, end, !invert});
    last = end;
  });
  if (last != text.size()) joiner.take({last, text.size(), invert});
  joiner.emit();
}

}  // namespace

PreTokeniser::PreTokeniser(const json& specification, const std::string& where) {
  if (!specification.is_null()) add(specification, where, 0);
  const auto bytes = std::find_if(stages_.begin(), stages_.end(),
                                  [](const Stage& s) { return s.kind == Kind::kWriteBytes; });
  if (bytes == stages_.end())
    fail_input("the tokenizer is not byte-level (its pre_tokenizer has no ByteLevel)", where,
               "use a byte-level BPE tokenizer, such as GPT-2's or Llama 3's");
  writes_bytes_ = bytes + 1 != stages_.end();
  if (!writes_bytes_) stages_.pop_back();  // nothing looks at the written form
}

void PreTokeniser::add(const json& specification, const std::string& where, int depth) {
  const std::string type = read_type(specification, "pre_tokenizer", where);
  if (type == "Sequence") {
    if (depth >= kDeepestSequence)
      fail_input("pre_tokenizer sequences are nested too deep", where, "check the file");
    for (const json& part : read_list(specification, "pretokenizers", where)) add(part, where, depth + 1);
  } else if (type == "ByteLevel") {
    add_byte_level(specification, where);
  } else if (type == "Split") {
    add_split(read_pattern(specification, where), read_behaviour(specification, where),
              read_flag(specification, "invert", false, where));
  } else if (type == "Digits") {
    const bool individual = read_flag(specification, "individual_digits", false, where);
    add_split(set_pattern(numeric_members(), where),
              individual ? SplitBehaviour::kIsolated : SplitBehaviour::kContiguous, false);
  } else if (type == "Punctuation") {
    add_split(
        set_pattern("\\p{P}$+<=>\\^`|~", where),
        specification.contains("behavior") ? read_behaviour(specification, where) : SplitBehaviour::kIsolated,
        false);
  } else if (type == "WhitespaceSplit") {
    add_split(set_pattern(space_members(), where), SplitBehaviour::kRemoved, false);
  } else if (type == "Whitespace") {
    add_split(Pattern::native(fmt::format("[{0}]+|[^{0}{1}]+", rust_word_members(), space_members()), where),
              SplitBehaviour::kRemoved, true);
  } else {
    fail_input(fmt::format("pre_tokenizer of type {} is not supported", printable(type)), where,
               "use a byte-level BPE tokenizer, such as GPT-2's or Llama 3's");
  }
}

void PreTokeniser::add_byte_level(const json& specification, const std::string& where) {
  for (const Stage& stage : stages_)
    if (stage.kind == Kind::kWriteBytes)
      fail_input("two ByteLevel pre_tokenizers in one tokenizer are not supported", where, "remove one");
  if (read_flag(specification, "add_prefix_space", true, where)) {
    stages_.emplace_back();
    stages_.back().kind = Kind::kPrefixSpace;
  }
  if (read_flag(specification, "use_regex", true, where))
    add_split(Pattern(kGpt2Words, where), SplitBehaviour::kIsolated, false);
  stages_.emplace_back();
  stages_.back().kind = Kind::kWriteBytes;
}

void PreTokeniser::add_split(Pattern pattern, SplitBehaviour behaviour, bool invert) {
  Stage stage;
  stage.pattern.push_back(std::move(pattern));
  stage.behaviour = behaviour;
  stage.invert = invert;
  stages_.push_back(std::move(stage));
}

// A word goes through the rest of the stages before the next one is cut, so nothing is held but it.
void PreTokeniser::run_from(size_t at, std::string_view word, MatchScratch& scratch,
                            const Visit& visit) const {
  if (at == stages_.size()) return writes_bytes_ ? visit(*read_written_bytes(word)) : visit(word);
  const Stage& stage = stages_[at];
  if (stage.kind == Kind::kSplit) {
    split_word(stage.pattern.front(), stage.behaviour, stage.invert, word, scratch,
               [&](std::string_view part) { run_from(at + 1, part, scratch, visit); });
  } else if (stage.kind == Kind::kWriteBytes) {
    run_from(at + 1, write_bytes(word), scratch, visit);
  } else if (word.starts_with(' ')) {
    run_from(at + 1, word, scratch, visit);
  } else {
    run_from(at + 1, " " + std::string(word), scratch, visit);
  }
}

void PreTokeniser::for_each_word(std::string_view text, MatchScratch& scratch, const Visit& visit) const {
  if (!text.empty()) run_from(0, text, scratch, visit);
}

}  // namespace openwork
