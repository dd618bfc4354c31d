#include "cli/program.h"

#include <fmt/format.h>
#include <malloc.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <new>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "cli/version.h"

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
    "  openwork VERB --help   says what a verb does, with examples";

constexpr VerbSummary kVerbs[] = {
    {"models", "lists built-in, fetched and cached models"},
    {"fetch", "brings a model's files onto this machine, resumed and checked"},
    {"inspect", "architecture, sizes, heads, gates and tensors of a model or weights file"},
    {"run", "next-token table of a prompt; generation; saving what the pass computes"},
    {"tokenize", "token ids and pieces of a text, or the text of token ids"},
    {"eval", "held-out nats per token, bits per byte and kept edges, with 95 % intervals"},
    {"pretrain", "train a model from nothing by its config.json"},
    {"sparsify", "gate every attention edge and post-train until few are left, at the model's own loss"},
    {"transcode",
     "train transcoders: sparse features in place of a model's MLPs, for trace and circuit-tracer"},
    {"heads", "the heads of one or more models side by side, as a figure"},
    {"scatter", "head-against-head scatter matrix over all causal pairs, as a figure"},
    {"ablate", "the effect of every head on a task: metric without it taken from metric with it"},
    {"circuit", "the heads or edges a task needs, faithfulness curves, models side by side"},
    {"trace", "one prompt from its tokens through features and heads to the answer"},
    {"stats", "statistics, classes and redundancy of every head; tests between models"},
    {"compare",
     "a dense model beside its sparse twin: one page with heads, statistics, circuits, a traced prompt, "
     "text"},
    {"bench", "speeds as ratios to a plain way, measured in the same run"},
};

// Those the program answers without opening libopenwork.so.
constexpr std::string_view kWithoutTorch[] = {"models", "fetch", "tokenize"};

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
    return print_error(fmt::format("{}; command line; see openwork{} --help", first_line(error.what()), verb),
                       2);
  }
}

}  // namespace

CLI::App* add_verb(CLI::App& app, const std::string& name) {
  const auto verb = std::find_if(std::begin(kVerbs), std::end(kVerbs),
                                 [&](const VerbSummary& each) { return each.name == name; });
  return app.add_subcommand(name, verb == std::end(kVerbs) ? "" : verb->summary);
}

bool needs_torch(int argc, char** argv) {
  if (argc < 2) return false;
  const std::string_view verb = argv[1];
  const bool known = std::any_of(std::begin(kVerbs), std::end(kVerbs),
                                 [&](const VerbSummary& each) { return each.name == verb; });
  return known &&
         std::find(std::begin(kWithoutTorch), std::end(kWithoutTorch), verb) == std::end(kWithoutTorch);
}

int run_program(int argc, char** argv, const std::map<std::string, AddVerb>& verbs,
                const ExplainError& explain) {
  keep_freed_memory();
  std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit is then an error of write(), reported like a full disk
  CLI::App app(kDescription, "openwork");
  app.footer(kExamples);
  app.set_version_flag("--version", fmt::format("openwork {}", kVersion));
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  for (const VerbSummary& verb : kVerbs) {
    const auto here = verbs.find(verb.name);
    if (here == verbs.end()) {
      add_verb(app, verb.name);
    } else {
      here->second(app);
    }
  }
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
    const std::optional<std::string> known = explain ? explain(error) : std::nullopt;
    if (known)
      return print_error(fmt::format("{}; torch; check shapes, memory and device", first_line(*known)), 1);
    return print_error(fmt::format("{}; openwork; please report this", first_line(error.what())), 1);
  }
}

}  // namespace openwork
