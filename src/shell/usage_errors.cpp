#include "shell/usage_errors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/near_names.h"
#include "shell/words.h"

namespace openwork {
namespace {

// An option that the verb does not have, with those it may have been; none where that is not what is wrong.
std::optional<std::string> explain_unknown_option(const CLI::App& verb) {
  for (const std::string& word : verb.remaining()) {
    if (!word.starts_with("--") || word.size() < 3) continue;
    std::vector<std::string> known;
    for (const CLI::Option* option : verb.get_options()) {
      if (option->get_group().empty()) continue;
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    }
    const std::string name = word.substr(0, word.find('='));
    const std::vector<std::string> near = near_names(name, known, Nearness::kLikely);
    return fmt::format(
        "unknown option '{}'; openwork {}; {}see openwork help {}", printable(name, 60), verb.get_name(),
        near.empty() ? "" : fmt::format("did you mean {}? ", fmt::join(near, " or ")), verb.get_name());
  }
  return std::nullopt;
}

// A word too many beside --task is taken for a prompt.
std::optional<std::string> explain_extra_prompt(const CLI::App& verb) {
  const CLI::Option* const task = verb.get_option_no_throw("--task");
  const std::vector<std::string> words = verb.remaining();
  if (task == nullptr || task->count() == 0 || words.empty() || words.front().starts_with("-"))
    return std::nullopt;
  return fmt::format("'{}' is too much: --task gives the prompts already; openwork {}; leave it out",
                     printable(without_marks(words.front()), 60), verb.get_name());
}

}  // namespace

std::string first_line(const std::string& text) {
  return printable(text.substr(0, text.find('\n')), 1000);
}

bool asks_for_help(std::string_view word) {
  return word == "help" || word == "--help" || word == "-h";
}

void check_verb(const CLI::App& app, int argc, const char* const* argv) {
  if (argc > 3 && asks_for_help(argv[1]))
    fail_input(fmt::format("'{}' is too much", printable(argv[3], 60)), "command line",
               "help is of one verb: openwork help VERB");
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> known;
  for (const CLI::App* verb : app.get_subcommands(nullptr)) known.push_back(verb->get_name());
  if (std::find(known.begin(), known.end(), argv[1]) != known.end()) return;
  const std::vector<std::string> near = near_names(argv[1], known, Nearness::kLikely);
  fail_input(fmt::format("unknown verb '{}'", printable(argv[1], 60)), "command line",
             near.empty()
                 ? fmt::format("use one of {}", fmt::join(known, ", "))
                 : fmt::format("did you mean {}? openwork --help lists all", fmt::join(near, " or ")));
}

std::string explain_parse_error(const CLI::App& app, const CLI::ParseError& error) {
  std::string verb;
  for (const CLI::App* sub : app.get_subcommands()) {
    verb = " " + sub->get_name();
    if (const auto unknown = explain_unknown_option(*sub)) return *unknown;
    if (const auto prompt = explain_extra_prompt(*sub)) return *prompt;
  }
  return fmt::format("{}; command line; see openwork{} --help", first_line(without_marks(error.what())),
                     verb);
}

}  // namespace openwork
