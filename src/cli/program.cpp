#include "cli/program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <malloc.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/near_names.h"
#include "cli/option_checks.h"
#include "cli/version.h"
#include "io/atomic_file.h"
#include "io/mapped_file.h"

namespace openwork {
namespace {

constexpr const char* kDescription =
    "openwork gates every attention edge of a language model, post-trains it until few are left, and shows "
    "what is left.\n"
    "MODEL is a Hugging Face folder, a .gguf file, a hub id in the cache, or a built-in name such as "
    "openwork-8m.";

constexpr const char* kExamples =
    "Examples:\n"
    "  openwork models\n"
    "  openwork run openwork-8m \"The city of Paris is the capital of\"\n"
    "  openwork eval openwork-8m --data held_out.txt.xz --context 512 --blocks 400\n"
    "  openwork help VERB     says what a verb does, with examples";

constexpr VerbSummary kVerbs[] = {
    {"models", "lists built-in, fetched and cached models"},
    {"fetch", "brings a model's files onto this machine, resumed and checked"},
    {"inspect", "architecture, sizes, heads, gates and tensors of a model or weights file"},
    {"run", "next-token table of a prompt; generation; saving what the pass computes"},
    {"tokenize", "token ids and pieces of a text, or the text of token ids"},
    {"eval", "held-out nats per token, bits per byte and kept edges, with 95 % intervals"},
    {"pretrain", "train a model from nothing by its config.json"},
    {"sparsify", "gate every attention edge and post-train until few are left, at the model's own loss"},
    {"prune", "remove heads that are closed, or worth less than a level, from the weights"},
    {"transcode",
     "train transcoders: sparse features in place of a model's MLPs, for trace and circuit-tracer"},
    {"features", "what a model's transcoder features are about: lists, searches, writes dashboard files"},
    {"heads", "the heads of one or more models side by side, as a figure"},
    {"scatter", "head-against-head scatter matrix over all causal pairs, as a figure"},
    {"ablate", "the effect of every head on a task: metric without it taken from metric with it"},
    {"circuit", "the heads or edges a task needs, faithfulness curves, models side by side"},
    {"trace", "one prompt from its tokens through features and heads to the answer"},
    {"stats", "statistics, classes and redundancy of every head; tests between models"},
    {"compare",
     "a dense model beside its sparse twin: one page with heads, statistics, circuits, a traced prompt, "
     "text"},
    {"serve", "the live viewer: type a prompt, see a dense model and its sparse twin think"},
    {"bench", "speeds as ratios to a plain way, measured in the same run"},
    {"completion", "what bash, zsh or fish complete, and man pages"},
};

int print_error(std::string_view message, int code) {
  std::fflush(stdout);
  fmt::print(stderr, "openwork: error: {}\n", message);
  return code;
}

// A library's message may be one line of many.
std::string first_line(const std::string& text) {
  return printable(text.substr(0, text.find('\n')), 1000);
}

// CLI11 says only that a verb is missing where it does not know the one given.
void check_verb(const CLI::App& app, int argc, char** argv) {
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

// An option that the verb does not have, with those it may have been; none where that is not what is wrong.
std::optional<std::string> explain_unknown_option(const CLI::App& verb) {
  for (const std::string& word : verb.remaining()) {
    if (!word.starts_with("--") || word.size() < 3) continue;
    std::vector<std::string> known;
    for (const CLI::Option* option : verb.get_options()) {
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

// CLI11 writes MODEL(1x) for one or more.
class PlainFormatter : public CLI::Formatter {
 public:
  std::string make_option_usage(const CLI::Option* option) const override {
    std::string text = make_option_name(option, true);
    if (option->get_expected_max() > 1) text += "...";
    return option->get_required() ? text : "[" + text + "]";
  }
};

// A signal that nobody else takes ends the program with one line, and without unfinished files.
void end_interrupted(int signal) {
  constexpr std::string_view kLine = "openwork: interrupted\n";
  const bool new_line = ::isatty(STDERR_FILENO) != 0;  // a bar may stand in this one
  if (new_line && ::write(STDERR_FILENO, "\n", 1) < 0) ::_exit(128 + signal);
  if (::write(STDERR_FILENO, kLine.data(), kLine.size()) < 0) ::_exit(128 + signal);
  remove_unfinished_files();
  ::_exit(128 + signal);
}

void take_signals() {
  std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit is then an error of write(), reported like a full disk
  explain_lost_pages();
  for (const int signal : {SIGINT, SIGTERM}) {
    if (std::signal(signal, end_interrupted) == SIG_IGN) std::signal(signal, SIG_IGN);  // as nohup wants it
  }
}

// Results that could not be written are an error, whatever else went well.
int check_output(int code) {
  errno = 0;
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (written || code != 0) return code;
  return print_error(
      fmt::format("the results could not be written ({}); standard output; free some space, or "
                  "write elsewhere",
                  errno != 0 ? std::strerror(errno) : "write error"),
      1);
}

// A word too many beside --task is taken for a prompt.
std::optional<std::string> explain_extra_prompt(const CLI::App& verb) {
  const CLI::Option* const task = verb.get_option_no_throw("--task");
  const std::vector<std::string> words = verb.remaining();
  if (task == nullptr || task->count() == 0 || words.empty() || words.front().starts_with("-"))
    return std::nullopt;
  return fmt::format("'{}' is too much: --task gives the prompts already; openwork {}; leave the prompt out",
                     printable(words.front(), 60), verb.get_name());
}

// CLI11's words for what is wrong with a command line, as the program's one line.
std::string explain_parse_error(const CLI::App& app, const CLI::ParseError& error) {
  std::string verb;
  for (const CLI::App* sub : app.get_subcommands()) {
    verb = " " + sub->get_name();
    if (const auto unknown = explain_unknown_option(*sub)) return *unknown;
    if (const auto prompt = explain_extra_prompt(*sub)) return *prompt;
  }
  return fmt::format("{}; command line; see openwork{} --help", first_line(error.what()), verb);
}

void add_verbs(CLI::App& app, const std::map<std::string, AddVerb>& verbs) {
  app.require_subcommand(1);
  for (const VerbSummary& verb : kVerbs) {
    const auto here = verbs.find(verb.name);
    if (here == verbs.end()) {
      add_verb(app, verb.name);
    } else {
      here->second(app);
    }
  }
}

int run_parsed(CLI::App& app, int argc, char** argv) {
  check_verb(app, argc, argv);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForAllHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForVersion& version) {
    return app.exit(version);
  } catch (const CLI::ParseError& error) {
    return print_error(explain_parse_error(app, error), 2);
  }
}

}  // namespace

CLI::App* add_verb(CLI::App& app, const std::string& name) {
  const auto verb = std::find_if(std::begin(kVerbs), std::end(kVerbs),
                                 [&](const VerbSummary& each) { return each.name == name; });
  return app.add_subcommand(name, verb == std::end(kVerbs) ? "" : verb->summary);
}

bool is_verb(const std::string& word) {
  return std::any_of(std::begin(kVerbs), std::end(kVerbs),
                     [&](const VerbSummary& each) { return each.name == word; });
}

// Activations of one pass are freed and wanted again by the next: glibc is told to keep them rather than hand every
// page back to the system and have it cleared anew, which took a tenth of a sweep's time.
void keep_freed_memory() {
#if defined(__GLIBC__)
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
#endif
}

void run_verb(const std::vector<std::string>& arguments, const std::map<std::string, AddVerb>& verbs) {
  CLI::App app(kDescription, "openwork");
  add_verbs(app, verbs);
  add_option_checks(app);
  std::vector<const char*> words = {"openwork"};
  for (const std::string& argument : arguments) words.push_back(argument.c_str());
  check_verb(app, static_cast<int>(words.size()), const_cast<char**>(words.data()));
  try {
    app.parse(static_cast<int>(words.size()), words.data());
  } catch (const CLI::ParseError& error) {
    const std::string line = explain_parse_error(app, error);
    fail_input(line.substr(0, line.find("; ")), "command line", line.substr(line.rfind("; ") + 2));
  }
}

std::vector<char*> translate_help(int argc, char** argv) {
  static char help[] = "--help";
  std::vector<char*> words(argv, argv + argc);
  if (argc < 2 || std::string_view(argv[1]) != "help") return words;
  words.erase(words.begin() + 1);
  if (words.size() == 1) return {words[0], help};
  return {words[0], words[1], help};
}

namespace {

int run_verbs(int argc, char** argv, const std::map<std::string, AddVerb>& verbs,
              const ExplainError& explain) {
  CLI::App app(kDescription, "openwork");
  app.formatter(std::make_shared<PlainFormatter>());
  app.footer(kExamples);
  app.set_version_flag("--version", fmt::format("openwork {}", kVersion));
  app.get_formatter()->column_width(34);
  add_verbs(app, verbs);
  add_option_checks(app);
  try {
    return run_parsed(app, argc, argv);
  } catch (const Error& error) {
    return print_error(error.what(), error.exit_code());
  } catch (const nlohmann::json::exception& error) {
    return print_error(
        fmt::format("a JSON value is not of the kind wanted; {}; correct the file", first_line(error.what())),
        2);
  } catch (const std::bad_alloc&) {
    return print_error("out of memory; this machine; use a smaller model, prompt or batch", 1);
  } catch (const std::exception& error) {
    if (std::ferror(stdout) != 0) return 0;  // check_output says so
    const std::optional<std::string> known = explain ? explain(error) : std::nullopt;
    if (known)
      return print_error(fmt::format("{}; torch; check shapes, memory and device", first_line(*known)), 1);
    return print_error(fmt::format("{}; openwork; please report this", first_line(error.what())), 1);
  }
}

}  // namespace

int run_program(int argc, char** argv, const std::map<std::string, AddVerb>& verbs,
                const ExplainError& explain) {
  keep_freed_memory();
  take_signals();
  return check_output(run_verbs(argc, argv, verbs, explain));
}

}  // namespace openwork
