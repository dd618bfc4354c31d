// The command line as a whole: the table of verbs with what each is for, and a run of the program that turns every
// error into one line and an exit code: 0 done, 2 bad input or usage, 1 anything else.
#pragma once
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace openwork {

// A verb's name, and one line of help that `openwork --help` shows for all of them.
struct VerbSummary {
  const char* name;
  const char* summary;
};

// Adds the verb's subcommand to the program, with the summary of the table (program.cpp); a verb's own file then adds
// its options to it.
CLI::App* add_verb(CLI::App& app, const std::string& name);

// Whether the command line asks for a verb that the program without torch does not have. Unknown verbs do not.
bool needs_torch(int argc, char** argv);

using AddVerb = void (*)(CLI::App& app);
// What an error of a library means, in words, where it is one the caller knows.
using ExplainError = std::function<std::optional<std::string>(const std::exception&)>;

// Verbs that are not in `verbs` are listed in the help and do nothing.
int run_program(int argc, char** argv, const std::map<std::string, AddVerb>& verbs,
                const ExplainError& explain = {});

}  // namespace openwork
