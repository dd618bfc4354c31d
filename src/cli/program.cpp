// Builds the command line from the table of verbs, runs it, and turns every error into one line and an exit
// code: 0 done, 2 bad input or usage, 1 anything else.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <malloc.h>

#include <csignal>
#include <cstdio>
#include <new>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "cli/verbs.h"
#include "cli/version.h"

namespace openwork {
namespace {

constexpr const char* kDescription =
    "openwork gates every attention edge of a language model, post-trains it until few are left, and shows what is left.\n"
    "MODEL is a Hugging Face folder, a .gguf file, a hub id in the cache, or a built-in name such as openwork-8m.";

constexpr const char* kExamples =
    "Examples:\n"
    "  openwork models\n"
    "  openwork run openwork-8m \"The city of Paris is the capital of\"\n"
    "  openwork eval openwork-8m --data held_out.txt.xz --context 512 --blocks 400\n"
    "  openwork VERB --help   says what a verb does, with examples";

int print_error(std::string_view message, int code) {
  std::fflush(stdout);
  fmt::print(stderr, "openwork: error: {}\n", message);
  return code;
}

// A torch error's own message is one line of many; the rest is a stack trace.
std::string first_line(const std::string& text) { return printable(text.substr(0, text.find('\n')), 1000); }

// CLI11 says only that a verb is missing where it does not know the one given.
void check_verb(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::string known;
  for (const CLI::App* verb : app.get_subcommands(nullptr)) {
    if (verb->get_name() == argv[1]) return;
    known += (known.empty() ? "" : ", ") + verb->get_name();
  }
  fail_input(fmt::format("unknown verb '{}'", printable(argv[1], 60)), "command line", "use one of " + known);
}

// Activations of one pass are freed and wanted again by the next: glibc is told to keep them rather than hand every
// page back to the system and have it cleared anew, which took a tenth of a sweep's time.
void keep_freed_memory() {
#if defined(__GLIBC__)
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
#endif
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
    std::string verb;
    for (const CLI::App* sub : app.get_subcommands()) verb = " " + sub->get_name();
    return print_error(fmt::format("{}; command line; see openwork{} --help", first_line(error.what()), verb), 2);
  }
}

}  // namespace

int run_program(int argc, char** argv) {
  keep_freed_memory();
  std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit is then an error of write(), reported like a full disk
  CLI::App app(kDescription, "openwork");
  app.footer(kExamples);
  app.set_version_flag("--version", fmt::format("openwork {}", kVersion));
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  for (const auto add_verb : {add_models_verb, add_fetch_verb, add_inspect_verb, add_run_verb, add_tokenize_verb,
                              add_eval_verb, add_pretrain_verb, add_sparsify_verb, add_transcode_verb, add_heads_verb,
                              add_scatter_verb, add_ablate_verb, add_circuit_verb, add_trace_verb, add_stats_verb,
                              add_compare_verb,
                              add_bench_verb}) {
    add_verb(app);
  }
  try {
    return run_parsed(app, argc, argv);
  } catch (const Error& error) {
    return print_error(error.what(), error.exit_code());
  } catch (const nlohmann::json::exception& error) {
    return print_error(fmt::format("a JSON value is not of the kind wanted; {}; correct the file", first_line(error.what())), 2);
  } catch (const std::bad_alloc&) {
    return print_error("out of memory; this machine; use a smaller model, prompt or batch", 1);
  } catch (const c10::Error& error) {
    return print_error(fmt::format("{}; torch; check shapes, memory and device", first_line(error.what_without_backtrace())), 1);
  } catch (const std::exception& error) {
    return print_error(fmt::format("{}; openwork; please report this", first_line(error.what())), 1);
  }
}

}  // namespace openwork
