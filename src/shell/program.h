// A program of verbs: what it says about itself, and a run of it that turns every error into one line and an exit code:
// 0 done, 2 bad input or usage, 1 anything else. Which verbs there are is the caller's to say (cli/verbs.h).
#pragma once
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <span>
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

// What `openwork --help` says: all verbs in their order, between a description and examples.
struct ProgramHelp {
  const char* description;
  const char* examples;
  std::span<const VerbSummary> verbs;
};

// Adds a verb's subcommand with its options, help and examples to the program.
using AddVerb = void (*)(CLI::App& app);
using Verbs = std::map<std::string, AddVerb>;
// What an error of a library means, in words, where it is one the caller knows.
using ExplainError = std::function<std::optional<std::string>(const std::exception&)>;

// `openwork help` as `openwork --help`, and `openwork help VERB` or `--help VERB` as `openwork VERB --help`; other words
// as they are.
std::vector<char*> translate_help(int argc, char** argv);

// Verbs of `help` that are not in `verbs` are listed and do nothing.
int run_program(int argc, char** argv, const ProgramHelp& help, const Verbs& verbs,
                const ExplainError& explain = {});

// The same for a host in this process: `arguments` are a verb and what follows it, and every error is thrown, what is
// wrong with the arguments as Error.
void run_verb(const std::vector<std::string>& arguments, const ProgramHelp& help, const Verbs& verbs);

// Has glibc keep the memory that one pass frees for the next one; the program's first act, and a host's.
void keep_freed_memory();

}  // namespace openwork
