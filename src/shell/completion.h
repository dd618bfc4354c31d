// What a shell completes and what man shows, made from the same table of verbs and options that reads the command line,
// so that neither can be out of date.
#pragma once
#include <string>

namespace CLI {
class App;
}

namespace openwork {

// `what` is bash, zsh, fish or man; a man page is of one verb where it is named, else of the program.
std::string make_completion(const CLI::App& app, const std::string& what, const std::string& verb);

}  // namespace openwork
