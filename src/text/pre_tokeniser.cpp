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
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

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

// Takes parts one by one and emits words as the behaviour says; the last word may still grow.
class WordJoiner {
 public:
  WordJoiner(std::string_view text, SplitBehaviour behaviour, std::vector<std::string_view>& out)
      : text_(text), behaviour_(behaviour), out_(out) {}
  ~WordJoiner() { emit(); }

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

 private:
  // Whether `part` belongs to the word before it. Of several matches in a row, MergedWithPrevious joins the
  // first to the text before them and MergedWithNext the last to the text after.
  bool joins(const Part& part) const {
    switch (behaviour_) {
      case SplitBehaviour::kContiguous: return part.matched == last_matched_;
      case SplitBehaviour::kMergedWithPrevious: return part.matched && !last_matched_;
      case SplitBehaviour::kMergedWithNext: return !part.matched && last_matched_;
      default: return false;
    }
  }

  void emit() {
    if (open_ && start_ < end_) out_.push_back(text_.substr(start_, end_ - start_));
    open_ = false;
  }

  std::string_view text_;
  SplitBehaviour behaviour_;
  std::vector<std::string_view>& out_;
  bool open_ = false, last_matched_ = false;
  size_t start_ = 0, end_ = 0;
};

void split_word(const Pattern& pattern, SplitBehaviour behaviour, bool invert, std::string_view text,
                SplitScratch& scratch) {
  WordJoiner joiner(text, behaviour, scratch.next);
  size_t last = 0;
  pattern.for_each_match(text, scratch.match, [&](size_t start, size_t end) {
    if (last != start) joiner.take({last, start, invert});
    joiner.take({start, end, !invert});
    last = end;
  });
  if (last != text.size()) joiner.take({last, text.size(), invert});
}

}  // namespace

PreTokeniser::PreTokeniser(const json& specification, const std::string& where) {
  if (!specification.is_null()) add(specification, where, 0);
  const auto bytes =
      std::find_if(stages_.begin(), stages_.end(), [](const Stage& s) { return s.kind == Kind::kWriteBytes; });
  if (bytes == stages_.end())
    fail_input("the tokenizer is not byte-level (its pre_tokenizer has no ByteLevel)", where,
               "use a byte-level BPE tokenizer, such as GPT-2's or Llama 3's");
  writes_bytes_ = bytes + 1 != stages_.end();
  if (!writes_bytes_) stages_.pop_back();  // nothing looks at the written form
}

void PreTokeniser::add(const json& specification, const std::string& where, int depth) {
  const std::string type = read_type(specification, "pre_tokenizer", where);
  if (type == "Sequence") {
    if (depth >= kDeepestSequence) fail_input("pre_tokenizer sequences are nested too deep", where, "check the file");
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
    add_split(set_pattern("\\p{P}$+<=>\\^`|~", where),
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
    add_split(Pattern(kGpt2Pattern, where), SplitBehaviour::kIsolated, false);
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

void PreTokeniser::run_stage(const Stage& stage, std::string_view word, SplitScratch& scratch) {
  if (stage.kind == Kind::kSplit) {
    split_word(stage.pattern.front(), stage.behaviour, stage.invert, word, scratch);
  } else if (stage.kind == Kind::kPrefixSpace) {
    if (word.front() != ' ') word = scratch.texts.emplace_back(" " + std::string(word));
    scratch.next.push_back(word);
  } else {
    scratch.next.push_back(scratch.texts.emplace_back(write_bytes(word)));
  }
}

const std::vector<std::string_view>& PreTokeniser::split(std::string_view text, SplitScratch& scratch) const {
  scratch.texts.clear();
  scratch.words.assign(1, text);
  for (const Stage& stage : stages_) {
    scratch.next.clear();
    for (const std::string_view word : scratch.words) run_stage(stage, word, scratch);
    std::swap(scratch.words, scratch.next);
  }
  if (writes_bytes_)
    for (std::string_view& word : scratch.words) word = scratch.texts.emplace_back(*read_written_bytes(word));
  return scratch.words;
}

}  // namespace openwork
