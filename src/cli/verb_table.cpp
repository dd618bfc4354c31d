// What the program says of itself, and every verb in a line.
#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/verbs.h"

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

const VerbSummary* find_verb(const std::string& name) {
  const auto verb = std::find_if(std::begin(kVerbs), std::end(kVerbs),
                                 [&](const VerbSummary& each) { return each.name == name; });
  return verb == std::end(kVerbs) ? nullptr : verb;
}

}  // namespace

const ProgramHelp& program_help() {
  static const ProgramHelp help{kDescription, kExamples, kVerbs};
  return help;
}

CLI::App* add_verb(CLI::App& app, const std::string& name) {
  const VerbSummary* const verb = find_verb(name);
  return app.add_subcommand(name, verb == nullptr ? "" : verb->summary);
}

bool is_verb(const std::string& word) {
  return find_verb(word) != nullptr;
}

}  // namespace openwork
