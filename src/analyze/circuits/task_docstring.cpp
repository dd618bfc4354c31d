// The tasks docstring (Heimersheim and Janiak 2023) and opposite. Docstring: a Python function's arguments,
// two of them described, and the third one's name is next; corrupt: other names in the signature, others
// still in the description; wrong: the name that the corrupt signature has in that place. Opposite: a word in
// quotes and its opposite; corrupt: another word, whose opposite is the wrong answer.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "analyze/circuits/task_parts.h"

namespace openwork {
namespace {

const std::vector<std::string> kWords = {
    "page",   "name",   "size",  "file",  "order", "state",  "number", "code",  "date",  "key",
    "parent", "object", "image", "line",  "point", "model",  "value",  "group", "class", "level",
    "type",   "list",   "time",  "text",  "table", "field",  "event",  "water", "house", "field",
    "light",  "road",   "tree",  "paper", "river", "king",   "hand",   "voice", "book",  "city",
    "money",  "music",  "story", "plan",  "unit",  "source", "target", "result"};

std::string write_docstring(const std::vector<std::string>& arguments,
                            const std::vector<std::string>& described,
                            const std::vector<std::string>& filler) {
  return fmt::format(
      "\ndef {}(self, {}, {}, {}, {}, {}, {}):\n    \"\"\"{} {} {}\n\n    :param {}: {} {}\n    :param {}: "
      "{} {}\n    :param",
      filler[0], filler[1], filler[2], arguments[0], arguments[1], arguments[2], filler[3], filler[4],
      filler[5], filler[6], described[0], filler[7], filler[8], described[1], filler[9], filler[10]);
}

const std::vector<std::pair<std::string, std::string>> kOpposites = {
    {"large", "small"},    {"hot", "cold"},    {"good", "bad"},    {"high", "low"},    {"fast", "slow"},
    {"up", "down"},        {"left", "right"},  {"old", "new"},     {"long", "short"},  {"big", "small"},
    {"true", "false"},     {"open", "closed"}, {"black", "white"}, {"day", "night"},   {"first", "last"},
    {"front", "back"},     {"hard", "soft"},   {"light", "dark"},  {"strong", "weak"}, {"rich", "poor"},
    {"start", "end"},      {"early", "late"},  {"wet", "dry"},     {"full", "empty"},  {"heavy", "light"},
    {"inside", "outside"}, {"win", "lose"},    {"yes", "no"},      {"male", "female"}, {"north", "south"},
    {"east", "west"},      {"love", "hate"},   {"life", "death"},  {"top", "bottom"},  {"more", "less"},
    {"before", "after"},   {"small", "large"}, {"cold", "hot"},    {"bad", "good"},    {"low", "high"},
    {"slow", "fast"},      {"down", "up"},     {"new", "old"},     {"short", "long"},  {"white", "black"},
    {"night", "day"},      {"last", "first"},  {"soft", "hard"},   {"dark", "light"},  {"weak", "strong"},
    {"poor", "rich"},      {"late", "early"},  {"dry", "wet"},     {"empty", "full"}};

struct OppositeForm {
  const char *before, *after, *space;  // the prompt around the word; what stands before a word as a token
};
constexpr OppositeForm kQuoted = {"The opposite of '", "' is '", ""};
constexpr OppositeForm kPlain = {"The opposite of ", " is", " "};

using WordPairs = std::vector<std::pair<std::string, std::string>>;

// Pairs of which both words are one token in this form.
WordPairs usable_pairs(const Tokenizer& tokenizer, const OppositeForm& form) {
  WordPairs usable;
  for (const auto& [word, opposite] : kOpposites) {
    if (single_token(tokenizer, form.space + word) && single_token(tokenizer, form.space + opposite))
      usable.emplace_back(word, opposite);
  }
  return usable;
}

}  // namespace

Task make_docstring_task(const TaskVocabulary& vocabulary, int64_t prompts, uint64_t seed) {
  const Tokenizer& tokenizer = need_tokenizer(vocabulary, "docstring");
  const std::vector<std::string> words = single_token_words(tokenizer, kWords);
  const std::vector<std::string> bare = single_token_words(tokenizer, words, "");  // may follow the quotes
  const size_t different =
      std::set(words.begin(), words.end()).size();  // a word of the list stands there twice
  if (different < 19 || bare.empty()) {
    refuse_tokenizer("docstring", fmt::format("only {} of the words are one token each", different));
  }
  TaskRandom random(mix_seed(seed, 4));
  Task task;
  for (int64_t n = 0; n < prompts; ++n) {
    const std::vector<std::string> drawn = random.choose_different(words, 19);
    const auto take = [&](size_t from, size_t count) {
      return std::vector<std::string>(drawn.begin() + from, drawn.begin() + from + count);
    };
    const std::vector<std::string> arguments = take(0, 3), others = take(3, 3), described = take(6, 2);
    std::vector<std::string> filler = take(8, 11);
    filler[4] = random.choose(bare);
    TaskPrompt prompt{.clean = task_tokens(vocabulary, write_docstring(arguments, arguments, filler)),
                      .corrupt = task_tokens(vocabulary, write_docstring(others, described, filler))};
    const auto end = static_cast<int64_t>(prompt.clean.size()) - 1;
    const int64_t answer = *single_token(tokenizer, " " + arguments[2]);
    prompt.reads.push_back({end, {answer}, {*single_token(tokenizer, " " + others[2])}});
    prompt.places = {
        {"end", end},
        {"answer", std::find(prompt.clean.begin(), prompt.clean.end(), answer) - prompt.clean.begin()}};
    task.prompts.push_back(std::move(prompt));
  }
  return task;
}

Task make_opposite_task(const TaskVocabulary& vocabulary, int64_t prompts, uint64_t seed) {
  const Tokenizer& tokenizer = need_tokenizer(vocabulary, "opposite");
  OppositeForm form = kQuoted;
  WordPairs pairs = usable_pairs(tokenizer, form);
  if (pairs.size() < 8) pairs = usable_pairs(tokenizer, form = kPlain);
  if (pairs.size() < 8)
    refuse_tokenizer("opposite", fmt::format("only {} pairs of words are one token each", pairs.size()));
  const auto write = [&](const std::string& word) { return form.before + word + form.after; };
  TaskRandom random(mix_seed(seed, 5));
  Task task;
  while (static_cast<int64_t>(task.prompts.size()) < prompts) {
    const auto& [word, opposite] = random.choose(pairs);
    const auto& [other, wrong] = random.choose(pairs);
    if (word == other || opposite == wrong) continue;
    TaskPrompt prompt{.clean = task_tokens(vocabulary, write(word)),
                      .corrupt = task_tokens(vocabulary, write(other))};
    const auto end = static_cast<int64_t>(prompt.clean.size()) - 1;
    prompt.reads.push_back({end,
                            {*single_token(tokenizer, form.space + opposite)},
                            {*single_token(tokenizer, form.space + wrong)}});
    const auto differs =
        std::mismatch(prompt.clean.begin(), prompt.clean.end(), prompt.corrupt.begin(), prompt.corrupt.end())
            .first;
    prompt.places = {{"end", end}, {"word", differs - prompt.clean.begin()}};
    task.prompts.push_back(std::move(prompt));
  }
  return task;
}

}  // namespace openwork
