#include "shell/program.h"

#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "io/mapped_file.h"
#include "io/unfinished.h"
#include "shell/option_checks.h"
#include "shell/usage_errors.h"
#include "shell/version.h"
#include "shell/words.h"

namespace openwork {
namespace {

int print_error(std::string_view message, int code) {
  std::fflush(stdout);
  fmt::print(stderr, "openwork: error: {}\n", message);
  return code;
}

// CLI11 writes MODEL(1x) for one or more.
class PlainFormatter : public CLI::Formatter {
 public:
  std::string make_option_usage(const CLI::Option* option) const override {
    std::string text = make_option_name(option, true);
    if (option->get_expected_max() > 1) text += "...";
    return option->get_required() ? text : "[" + text + "]";
  }
  // A positional's name says what it is: "MODEL", not "MODEL TEXT".
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string text = CLI::Formatter::make_option_opts(option), kind = " " + option->get_type_name();
    return !option->nonpositional() && kind.size() > 1 && text.starts_with(kind) ? text.substr(kind.size())
                                                                                 : text;
  }
};

// A signal that nobody else takes ends the program with one line, and without unfinished files.
void leave_at_signal(int signal) {
  constexpr std::string_view kLine = "openwork: interrupted\n";
  const bool new_line = ::isatty(STDERR_FILENO) != 0;  // a bar may stand in this one
  if (new_line && ::write(STDERR_FILENO, "\n", 1) < 0) ::_exit(128 + signal);
  if (::write(STDERR_FILENO, kLine.data(), kLine.size()) < 0) ::_exit(128 + signal);
  remove_unfinished();
  ::_exit(128 + signal);
}

void take_signals() {
  std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit is then an error of write(), reported like a full disk
  explain_lost_pages();
  for (const int signal : {SIGINT, SIGTERM}) {
    if (std::signal(signal, leave_at_signal) == SIG_IGN) std::signal(signal, SIG_IGN);  // as nohup wants it
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

void add_verbs(CLI::App& app, const ProgramHelp& help, const Verbs& verbs) {
  app.require_subcommand(1);
  for (const VerbSummary& verb : help.verbs) {
    const auto here = verbs.find(verb.name);
    if (here == verbs.end()) {
      app.add_subcommand(verb.name, verb.summary);
    } else {
      here->second(app);
    }
  }
}

int run_parsed(CLI::App& app, int argc, char** argv) {
  check_verb(app, argc, argv);
  try {
    parse_words(app, {argv + 1, argv + argc});
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

// Activations of one pass are freed and wanted again by the next: glibc is told to keep them rather than hand every
// page back to the system and have it cleared anew, which took a tenth of a sweep's time.
void keep_freed_memory() {
#if defined(__GLIBC__)
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
#endif
}

void run_verb(const std::vector<std::string>& arguments, const ProgramHelp& help, const Verbs& verbs) {
  CLI::App app(help.description, "openwork");
  add_verbs(app, help, verbs);
  add_option_checks(app);
  std::vector<const char*> words = {"openwork"};
  for (const std::string& argument : arguments) words.push_back(argument.c_str());
  check_verb(app, static_cast<int>(words.size()), words.data());
  try {
    parse_words(app, arguments);
  } catch (const CLI::ParseError& error) {
    const std::string line = explain_parse_error(app, error);
    fail_input(line.substr(0, line.find("; ")), "command line", line.substr(line.rfind("; ") + 2));
  }
}

std::vector<char*> translate_help(int argc, char** argv) {
  static char help[] = "--help";
  std::vector<char*> words(argv, argv + argc);
  if (argc < 2 || argc > 3 || !asks_for_help(argv[1])) return words;
  if (argc == 2 || argv[2][0] == '-') return {words[0], help};
  return {words[0], words[2], help};
}

namespace {

int run_verbs(int argc, char** argv, const ProgramHelp& help, const Verbs& verbs,
              const ExplainError& explain) {
  CLI::App app(help.description, "openwork");
  app.formatter(std::make_shared<PlainFormatter>());
  app.footer(help.examples);
  app.set_version_flag("--version", fmt::format("openwork {}", kVersion));
  app.get_formatter()->column_width(34);
  add_verbs(app, help, verbs);
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

int run_program(int argc, char** argv, const ProgramHelp& help, const Verbs& verbs,
                const ExplainError& explain) {
  keep_freed_memory();
  take_signals();
  return check_output(run_verbs(argc, argv, help, verbs, explain));
}

}  // namespace openwork
