#include "shell/words.h"

#include <CLI/CLI.hpp>
#include <algorithm>

namespace openwork {
namespace {

constexpr char kMark = '\x1f';
// Stands where "--" was: a flag nobody can type, so that what follows is not taken into an option's list.
const std::string kEndOfOptions = std::string("--") + kMark;

void add_marks(CLI::App& app) {
  const CLI::Validator take_off(
      [](std::string& word) {
        if (word.starts_with(kMark)) word.erase(0, 1);
        return std::string();
      },
      "");
  for (CLI::App* verb : app.get_subcommands(nullptr)) {
    for (CLI::Option* option : verb->get_options())
      if (option->get_items_expected_max() > 0) option->transform(take_off);
    verb->add_flag(kEndOfOptions)->group("");  // in no help
  }
}

std::string mark(const std::string& word) {
  const bool is_list = word.starts_with('[') && word.ends_with(']');
  return is_list || word == "++" || word.starts_with(kMark) ? kMark + word : word;
}

// Whether the next word is the option's value, whatever it looks like.
bool wants_value(const CLI::App& verb, const std::string& word) {
  const CLI::Option* const option = word.starts_with("--") ? verb.get_option_no_throw(word) : nullptr;
  return option != nullptr && option->get_items_expected_min() > 0;
}

std::vector<std::string> mark_words(const CLI::App& verb, const std::vector<std::string>& words) {
  std::vector<std::string> marked = {words.front()};
  bool is_value = false;
  for (size_t n = 1; n < words.size(); ++n) {
    const std::string& word = words[n];
    const size_t equals = word.find('=');
    if (word == "--" && !is_value) {
      if (n + 1 < words.size()) marked.push_back(kEndOfOptions);
      while (++n < words.size()) marked.push_back(kMark + words[n]);
    } else if (!is_value && word.starts_with("--") && equals != std::string::npos) {
      marked.push_back(word.substr(0, equals + 1) + mark(word.substr(equals + 1)));
    } else {
      marked.push_back(mark(word));
      is_value = !is_value && wants_value(verb, word);
    }
  }
  return marked;
}

}  // namespace

void parse_words(CLI::App& app, const std::vector<std::string>& words) {
  add_marks(app);
  std::vector<std::string> marked = words;
  for (const CLI::App* verb : app.get_subcommands(nullptr))
    if (!words.empty() && verb->get_name() == words.front()) marked = mark_words(*verb, words);
  std::reverse(marked.begin(), marked.end());  // as CLI11 wants them
  app.parse(std::move(marked));
}

std::string without_marks(std::string text) {
  std::erase(text, kMark);
  return text;
}

}  // namespace openwork
