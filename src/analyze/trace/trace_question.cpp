#include "analyze/trace/trace_question.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/number_text.h"

namespace openwork {
namespace {

std::optional<int64_t> parse_position(const std::string& text) {
  int64_t position = 0;
  const char* const end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, position);
  return error == std::errc() && next == end ? std::optional(position) : std::nullopt;
}

// The token that holds the last byte of the word where it stands last in the text, as its tokens spell it: a tokenizer
// may have changed it before.
int64_t find_word(const TracedModel& traced, const TracePrompt& prompt, const std::string& word,
                  const std::string& option) {
  std::string text;
  std::vector<size_t> ends;  // of each token from `first` on
  const auto first = static_cast<size_t>(traced.count_beginning(prompt.ids));
  for (size_t n = first; n < prompt.ids.size() && !prompt.text.empty(); ++n) {
    text += traced.tokenizer->piece(static_cast<int32_t>(prompt.ids[n]));
    ends.push_back(text.size());
  }
  const size_t at = text.rfind(word);
  if (at == std::string::npos || ends.empty()) {
    fail_input(fmt::format("'{}' is neither a position nor a word of the prompt", printable(word, 60)),
               option, fmt::format("give a position from 0 to {}, or a word", prompt.ids.size() - 1));
  }
  const auto end = std::lower_bound(ends.begin(), ends.end(), at + word.size());
  return static_cast<int64_t>(first) + (end - ends.begin());
}

std::optional<int64_t> read_position(const TracedModel& traced, const TracePrompt& prompt,
                                     const std::string& text, const std::string& option) {
  if (text.empty()) return std::nullopt;
  const std::optional<int64_t> position = parse_position(text);
  if (!position) return find_word(traced, prompt, text, option);
  if (*position < 0 || *position >= static_cast<int64_t>(prompt.ids.size())) {
    fail_input(fmt::format("position {} of a prompt of {}", *position, count_of(prompt.ids.size(), "token")),
               option, fmt::format("positions are 0 to {}", prompt.ids.size() - 1));
  }
  return position;
}

int64_t read_target(const TracedModel& traced, const std::string& text, const std::string& where) {
  if (!traced.tokenizer) {
    if (const std::optional<int64_t> id = parse_position(text)) return *id;
    fail_input(fmt::format("'{}' cannot be tokenised: the model has no tokenizer", printable(text, 60)),
               where, "give a token's id");
  }
  const std::vector<int32_t> ids = traced.tokenizer->encode(text);
  if (ids.size() == 1) return ids.front();
  std::string pieces;
  for (const int32_t id : ids)
    pieces += fmt::format("{}'{}'", pieces.empty() ? "" : " ", printable(traced.tokenizer->piece(id), 30));
  fail_input(fmt::format("'{}' is not one token but {}{}", printable(text, 60), ids.size(),
                         ids.empty() ? "" : ": " + pieces),
             where, "give one token, with its space where it has one");
}

}  // namespace

TracePrompt read_trace_prompt(const TracedModel& traced, const std::vector<int64_t>& ids,
                              const std::string& text, const TraceQuestion& question) {
  TracePrompt prompt{ids, {}, text, {}, {}};
  const auto place = [&](const std::string& name) {
    return question.where.empty() ? "--" + name : fmt::format("{}, \"{}\"", question.where, name);
  };
  for (const std::string& target : question.targets) {
    const int64_t id = read_target(traced, target, place("target"));
    if (std::find(prompt.targets.begin(), prompt.targets.end(), id) == prompt.targets.end())
      prompt.targets.push_back(id);
  }
  prompt.from = read_position(traced, prompt, question.from, place("from"));
  prompt.to = read_position(traced, prompt, question.to, place("to"));
  const int64_t to = prompt.to.value_or(static_cast<int64_t>(ids.size()) - 1);
  if (prompt.from && *prompt.from >= to) {
    fail_input(fmt::format("from position {} to position {}", *prompt.from, to),
               question.where.empty() ? "--from, --to" : question.where,
               "something moves from an earlier token to a later one");
  }
  return prompt;
}

}  // namespace openwork
