// Words of held-out passages, right where every token of the word is the most likely one after those before it:
// the last whole word of a passage, and the last one that stands in the far context and not in the near one. Each
// is asked for twice: behind the whole passage, and behind its last kNear tokens alone.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "analyze/capability/suite_tests.h"
#include "analyze/circuits/task_parts.h"
#include "base/error.h"

namespace openwork {
namespace {

constexpr int64_t kNear = 32;       // tokens of the near context
constexpr int64_t kLetters = 4;     // a word has at least so many
constexpr int64_t kShortest = 128;  // tokens of a passage

struct PassageWord {
  int64_t first = 0, end = 0;  // tokens [first, end)
};

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool all_letters(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_letter);
}

// Words as tokens write them: a piece of a space and letters, pieces of letters, and then what is no letter.
std::vector<PassageWord> find_words(const Tokenizer& tokenizer, std::span<const int32_t> tokens) {
  std::vector<PassageWord> words;
  const auto count = static_cast<int64_t>(tokens.size());
  const auto piece = [&](int64_t n) -> std::string_view {
    return tokenizer.piece(tokens[static_cast<size_t>(n)]);
  };
  for (int64_t n = 0; n < count; ++n) {
    if (piece(n).size() < 2 || piece(n)[0] != ' ' || !all_letters(piece(n).substr(1))) continue;
    int64_t end = n + 1, letters = static_cast<int64_t>(piece(n).size()) - 1;
    for (; end < count && all_letters(piece(end)); ++end) letters += static_cast<int64_t>(piece(end).size());
    const bool whole = end < count && !piece(end).empty() &&
                       static_cast<unsigned char>(piece(end)[0]) < 0x80 && !is_letter(piece(end)[0]);
    if (whole && letters >= kLetters) words.push_back({n, end});
  }
  return words;
}

bool stands_in(std::span<const int32_t> text, std::span<const int32_t> word) {
  return std::search(text.begin(), text.end(), word.begin(), word.end()) != text.end();
}

// The last word there is something far before, and, where it must be recalled, that stands there alone.
std::optional<PassageWord> choose_word(const Tokenizer& tokenizer, std::span<const int32_t> passage,
                                       bool recalled) {
  const std::vector<PassageWord> words = find_words(tokenizer, passage);
  for (auto word = words.rbegin(); word != words.rend() && word->first >= 2 * kNear; ++word) {
    const auto tokens =
        passage.subspan(static_cast<size_t>(word->first), static_cast<size_t>(word->end - word->first));
    const auto near_from = static_cast<size_t>(word->first - kNear);
    if (!recalled || (stands_in(passage.first(near_from), tokens) &&
                      !stands_in(passage.subspan(near_from, static_cast<size_t>(kNear)), tokens)))
      return *word;
  }
  return std::nullopt;
}

SuitePrompt ask_word(const std::vector<int64_t>& beginning, std::span<const int32_t> passage, int64_t from,
                     const PassageWord& word, size_t bin) {
  SuitePrompt prompt{.tokens = beginning};
  for (int64_t n = from; n < word.end; ++n) {
    const int64_t token = passage[static_cast<size_t>(n)];
    if (n >= word.first)
      prompt.reads.push_back({static_cast<int64_t>(prompt.tokens.size()) - 1, {token}, {}, bin});
    prompt.tokens.push_back(token);
  }
  prompt.tokens.pop_back();
  return prompt;
}

SuiteTest make_words(const SuiteSource& source, bool recalled, const std::string& name) {
  const Tokenizer& tokenizer = need_tokenizer(source.vocabulary, name);
  if (source.documents.empty()) fail_input("no held-out text", "test " + name, "give --data FILE");
  const std::vector<int64_t>& beginning = source.vocabulary.beginning;
  const int64_t room = source.context - static_cast<int64_t>(beginning.size());
  SuiteTest test{.all_reads = true, .bins = {{"whole passage"}, {fmt::format("last {} tokens", kNear)}}};
  for (const std::vector<int32_t>& document : source.documents) {
    if (static_cast<int64_t>(test.prompts.size()) >= 2 * source.prompts) break;
    const std::span<const int32_t> passage =
        std::span(document).first(std::min(document.size(), static_cast<size_t>(room)));
    if (static_cast<int64_t>(passage.size()) < kShortest) continue;
    const std::optional<PassageWord> word = choose_word(tokenizer, passage, recalled);
    if (!word) continue;
    test.prompts.push_back(ask_word(beginning, passage, 0, *word, 0));
    test.prompts.push_back(ask_word(beginning, passage, word->first - kNear, *word, 1));
  }
  if (test.prompts.empty()) {
    fail_input(fmt::format("no document of {} tokens or more has such a word", kShortest), "test " + name,
               "give more text with --data, or a longer --context");
  }
  return test;
}

}  // namespace

SuiteTest make_last_word(const SuiteSource& source) {
  return make_words(source, false, "last-word");
}
SuiteTest make_recalled_word(const SuiteSource& source) {
  return make_words(source, true, "recalled-word");
}

}  // namespace openwork
