// A command line read by CLI11, every word as it was typed. By itself CLI11 takes "[a, b]" for two words and "++" for the
// end of a verb, and lets "--" end the options only while a positional is missing. Here a word that it would read so, and
// every word after "--", goes through it behind a mark that each option takes off again.
#pragma once
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace openwork {

// `words`: a verb and what follows it. Throws what CLI::App::parse throws; without_marks() of its messages is to be shown.
void parse_words(CLI::App& app, const std::vector<std::string>& words);

std::string without_marks(std::string text);

}  // namespace openwork
