// The command line as a whole: the table of verbs with what each is for, and a run of the program that turns every
// error into one line and an exit code: 0 done, 2 bad input or usage, 1 anything else.
#pragma once
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

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

// `openwork help` as `openwork --help`, and `openwork help VERB` as `openwork VERB --help`; other words as they are.
std::vector<char*> translate_help(int argc, char** argv);

// Whether the table has a verb of that name.
bool is_verb(const std::string& word);

using AddVerb = void (*)(CLI::App& app);
// What an error of a library means, in words, where it is one the caller knows.
using ExplainError = std::function<std::optional<std::string>(const std::exception&)>;

// Verbs that are not in `verbs` are listed in the help and do nothing.
int run_program(int argc, char** argv, const std::map<std::string, AddVerb>& verbs,
                const ExplainError& explain = {});

// The same for a host in this process: `arguments` are a verb and what follows it, and every error is thrown, what is
// wrong with the arguments as Error.
void run_verb(const std::vector<std::string>& arguments, const std::map<std::string, AddVerb>& verbs);

// Has glibc keep the memory that one pass frees for the next one; the program's first act, and a host's.
void keep_freed_memory();

}  // namespace openwork
