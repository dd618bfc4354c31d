// What is wrong with a command line, said in one line: verbs and options that there are not, with those they may have
// been.
#pragma once
#include <string>
#include <string_view>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace openwork {

// help, --help or -h, which a verb may follow.
bool asks_for_help(std::string_view word);

// Fails on a first word that is no verb: CLI11 says only that a verb is missing. And on a word too many after help.
void check_verb(const CLI::App& app, int argc, const char* const* argv);

// CLI11's words for what is wrong, as the program's one line: WHAT; WHERE; WHAT TO DO.
std::string explain_parse_error(const CLI::App& app, const CLI::ParseError& error);

// A library's message may be one line of many.
std::string first_line(const std::string& text);

}  // namespace openwork
