#include "cli/trace_options.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/head_place.h"
#include "shell/task_options.h"

namespace openwork {
namespace {

constexpr double kLargestBoost = 1e6;  // far beyond what a model's numbers bear

// NODE=X
NodeChange parse_boost(const std::string& text) {
  const size_t equals = text.rfind('=');
  double factor = 0;
  const char* const end = text.data() + text.size();
  const auto [next, error] = equals == std::string::npos
                                 ? std::from_chars_result{text.data(), std::errc::invalid_argument}
                                 : std::from_chars(text.data() + equals + 1, end, factor);
  if (error != std::errc() || next != end || !std::isfinite(factor))
    fail_input(fmt::format("'{}' is not NODE=X", printable(text, 60)), "--boost",
               "write it like L3F512@7=2 or L5H1=1.5");
  if (std::abs(factor) > kLargestBoost)
    fail_input(fmt::format("{} times what it was", factor), "--boost",
               fmt::format("give a number from {:.0f} to {:.0f}", -kLargestBoost, kLargestBoost));
  return {text.substr(0, equals), factor};
}

bool names_feature(const std::string& node) {
  return node.starts_with('L') && node.find('F') != std::string::npos;
}

void add_questions(CLI::App& verb, TraceOptions& options) {
  verb.add_option("--target", options.question.targets,
                  "the token whose logit is traced (default: the most likely); again for more")
      ->type_name("TOKEN")
      ->allow_extra_args(false);
  verb.add_option(
          "--from", options.question.from,
          "key position, or a word of the prompt (default: where most is moved from, the first token aside)")
      ->type_name("POS");
  verb.add_option("--to", options.question.to, "query position (default: the last)")->type_name("POS");
  verb.add_option("--explain", options.settings.explain,
                  "share of what moves that the counted heads must carry")
      ->type_name("X")
      ->check(between(0.01, 1.0))
      ->capture_default_str();
  verb.add_option("--ablate", options.ablate,
                  "take out a node (L3F512@7, M3@7, E3@7, T@7) or a head (L5H1) and see; again for more")
      ->type_name("NODE")
      ->allow_extra_args(false);
  verb.add_option("--boost", options.boost, "multiply one by X and see; again for more")
      ->type_name("NODE=X")
      ->allow_extra_args(false);
  verb.add_option("--query-key", options.scores,
                  "a pattern entry's score as pairs of nodes, drawn with --out; top: the strongest head's "
                  "between the "
                  "two tokens; again for more")
      ->type_name("L5H1:8<-5")
      ->allow_extra_args(false);
}

void add_settings(CLI::App& verb, TraceOptions& options) {
  verb.add_option(
          "--transcoder", options.transcoders,
          "transcoder folder, one per model in their order; none: MLPs are nodes (default: the models' own)")
      ->type_name("DIR")
      ->allow_extra_args(false);
  verb.add_option("--max-nodes", options.settings.max_nodes, "attribute to the N most influential nodes")
      ->type_name("N")
      ->check(between(1, 1 << 20))
      ->capture_default_str();
  verb.add_option("--node-threshold", options.node_threshold, "share of the influence that kept nodes hold")
      ->type_name("X")
      ->check(between(0.01, 1.0))
      ->default_str(fmt::format("{}", options.settings.node_threshold));
  verb.add_option("--edge-threshold", options.edge_threshold, "share of what is left that kept links hold")
      ->type_name("X")
      ->check(between(0.01, 1.0))
      ->default_str(fmt::format("{}", options.settings.edge_threshold));
  verb.add_option("--memory", options.memory, "GiB that tracing may take besides the model")
      ->type_name("X")
      ->check(between(0.001, 4096.0))
      ->capture_default_str();
  verb.add_option("--top", options.top, "nodes and pairs listed")
      ->type_name("N")
      ->check(between(1, 100000))
      ->capture_default_str();
  verb.add_option(
          "--graph", options.graph,
          "write the graph for public viewers; of several models F-MODEL.json each; F.json.zst: packed")
      ->type_name("F.json");
  verb.add_option("--from-graph", options.from_graphs,
                  "draw a file that --graph wrote (.zst too), without the model (with --out), or prune it "
                  "further (with "
                  "--graph and "
                  "thresholds); again for several together")
      ->type_name("F.json")
      ->allow_extra_args(false);
  verb.add_option("--features-out", options.features_out,
                  "write what is known of the graph's features, a file each, for viewers")
      ->type_name("DIR");
  add_figure_file(verb, options.figure);
}

}  // namespace

void add_trace_options(CLI::App& verb, TraceOptions& options) {
  verb.add_option("MODEL... PROMPT", options.words, "one or more models, then the text")
      ->type_name("")
      ->expected(0, 64);
  verb.add_option(
          "--prompts", options.source.prompts,
          "many prompts, JSONL of {\"prompt\", \"target\", \"from\", \"to\"}: heads needed, with intervals")
      ->type_name("FILE");
  verb.add_option(
          "--interventions", options.interventions,
          "over N prompts of --prompts or --task, knock out the graphs' top features and heads in the model "
          "itself, and say how well the graphs predict it (N: 20)")
      ->type_name("N")
      ->expected(0, 1)
      ->default_str("20")
      ->check(between(1, 1 << 20));
  verb.add_option("--task", options.task,
                  "with --interventions: prompts of copy, ioi, greater-than, docstring, "
                  "opposite or a JSONL file")
      ->check(task_name())
      ->type_name("TASK");
  verb.add_option("--tokens", options.source.tokens, "token ids instead of a text")->type_name("1,2,3");
  verb.add_option("--tokens-file", options.source.tokens_file, "JSON file [[id, ...]] of one prompt")
      ->type_name("FILE");
  add_questions(verb, options);
  add_settings(verb, options);
}

void check_trace_options(const TraceOptions& options, const std::vector<std::string>& models) {
  if (!options.figure.out.empty()) check_figure_output(options.figure);
  const bool many = !options.source.prompts.empty() || !options.task.empty();
  if (!options.task.empty() && !options.source.prompts.empty())
    fail_input("both --task and --prompts", "command line", "give one of them");
  if (!options.task.empty() && options.interventions == 0)
    fail_input("a task without --interventions", "--task", "add --interventions, or give a prompt");
  if (options.interventions > 0 && !many)
    fail_input("interventions without prompts", "--interventions", "give --prompts FILE or --task TASK");
  const bool single_prompt_only = !options.question.targets.empty() || !options.ablate.empty() ||
                                  !options.boost.empty() || !options.scores.empty() ||
                                  !options.question.from.empty() || !options.question.to.empty() ||
                                  !options.graph.empty() || !options.figure.out.empty();
  if (many && single_prompt_only) {
    fail_input("many prompts with an option for one", options.task.empty() ? "--prompts" : "--task",
               "leave out --target, --from, --to, --ablate, --boost, --query-key, --graph and --out: the "
               "file says where to look");
  }
  if (models.size() < 2) return;
  for (const auto* nodes : {&options.ablate, &options.boost}) {
    for (const std::string& node : *nodes) {
      if (names_feature(node))
        fail_input(fmt::format("a feature, {}, of several models", printable(node, 60)), "--ablate, --boost",
                   "features are one model's own: trace one model, or change heads and tokens");
    }
  }
}

void check_kept_options(const TraceOptions& options) {
  if (!options.words.empty())
    fail_input("a kept graph and a model or prompt", "--from-graph",
               "leave out MODEL and PROMPT: the file has both");
  // Options common to all verbs do no harm.
  static const std::set<std::string> fit = {
      "--from-graph", "--graph", "--out", "--dpi",     "--node-threshold", "--edge-threshold",
      "--device",     "--dtype", "--bos", "--threads", "--seed",           "--quiet"};
  for (const std::string& name : options.typed) {
    if (!fit.contains(name))
      fail_input("a kept graph and an option that needs a model", printable(name, 60),
                 "leave it out: --from-graph takes --out, --graph, --node-threshold and --edge-threshold");
  }
  if (options.figure.out.empty() && options.graph.empty())
    fail_input("a kept graph and nothing to make of it", "--from-graph",
               "add --out F.svg, or --graph F.json with --node-threshold and --edge-threshold");
  if (!options.figure.out.empty()) check_figure_output(options.figure);
}

void check_changes(const std::vector<NodeChange>& changes, const ModelConfig& config,
                   const std::string& model) {
  for (const NodeChange& change : changes) {
    const std::optional<HeadPlace> head = parse_head_place(change.node);
    const std::optional<TraceNode> node = parse_trace_node(change.node);
    if (!head && !node)
      fail_input(
          fmt::format("'{}' is no node", printable(change.node, 60)), "--ablate, --boost",
          "name a feature (L3F512@7), an MLP (M3@7), an error (E3@7), an embedding (T@7) or a head (L5H1)");
    if ((head ? head->layer : node->layer) >= config.layers || (head && head->head >= config.heads))
      fail_input(fmt::format("no {} in {}", printable(change.node, 60), printable(model, 60)),
                 "--ablate, --boost",
                 fmt::format("it has {} layers of {} heads", config.layers, config.heads));
  }
}

void settle_trace_options(TraceOptions& options) {
  constexpr double kGibibyte = 1 << 30;
  PromptTraceSettings& settings = options.settings;
  settings.memory = static_cast<int64_t>(options.memory * kGibibyte);
  settings.pairs = static_cast<size_t>(options.top);
  settings.node_threshold = options.node_threshold.value_or(settings.node_threshold);
  settings.edge_threshold = options.edge_threshold.value_or(settings.edge_threshold);
  for (const std::string& node : options.ablate) settings.changes.push_back({node, 0});
  for (const std::string& text : options.boost) settings.changes.push_back(parse_boost(text));
  for (const std::string& text : options.scores) {
    if (text == "top") {
      settings.top_score = true;
      continue;
    }
    const std::optional<PatternEntry> entry = parse_pattern_entry(text);
    if (!entry)
      fail_input(fmt::format("'{}' is no pattern entry", printable(text, 60)), "--query-key",
                 "write it like L5H1:8<-5, the key not after the query, or top");
    settings.scores.push_back(*entry);
  }
}

}  // namespace openwork
