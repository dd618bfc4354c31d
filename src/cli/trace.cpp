// openwork trace: which features make a prompt's next token, and which heads carry them from token to token.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>

#include "base/error.h"
#include "cli/figure_options.h"
#include "cli/trace_prompts.h"
#include "cli/trace_report.h"
#include "cli/verbs.h"
#include "cli/version.h"
#include "draw/figure.h"
#include "io/atomic_file.h"
#include "report/trace_graph.h"

namespace openwork {
namespace {

namespace fs = std::filesystem;

// graph.json -> graph-openwork-8m.json where several models are traced.
std::string name_for_model(const std::string& file, const std::string& model, size_t models) {
  if (models == 1) return file;
  const fs::path path(file);
  std::string name = short_name(model);
  std::replace(name.begin(), name.end(), '/', '-');
  return (path.parent_path() / fmt::format("{}-{}{}", path.stem().string(), name, path.extension().string()))
      .string();
}

bool names_feature(const std::string& node) {
  return node.starts_with('L') && node.find('F') != std::string::npos;
}

// What does not fit together is said before any model is opened.
void check_options(const TraceOptions& options, const std::vector<std::string>& models) {
  if (!options.figure.out.empty()) check_figure_output(options.figure);
  const bool many = !options.source.prompts.empty();
  const bool single_prompt_only = !options.targets.empty() || !options.ablate.empty() ||
                                  !options.boost.empty() || !options.scores.empty() ||
                                  !options.from.empty() || !options.to.empty() || !options.graph.empty() ||
                                  !options.figure.out.empty();
  if (many && single_prompt_only) {
    fail_input("many prompts with an option for one", "--prompts",
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

std::vector<ModelTrace> trace_models(const TraceOptions& options, const std::vector<std::string>& models,
                                     const std::vector<std::string>& transcoders, const GivenPrompts& given,
                                     nlohmann::json& protocol) {
  std::vector<ModelTrace> traces;
  for (size_t n = 0; n < models.size(); ++n) {
    TracedModel traced = open_traced_model(models[n], transcoders[n], options.common);
    protocol["device"] = traced.model.device().str();
    traces.push_back(trace_given(traced, given, options, traces.empty() ? nullptr : &traces.front()));
    if (n == 0) print_trace_header(options.common);
    print_trace_row(options.common, traces.back());
    if (options.features_out.empty()) continue;
    const std::string folder = name_for_model(options.features_out, models[n], models.size());
    const size_t count = write_features(folder, traced, traces.back().graph);
    print_result(options.common, fmt::format("wrote {} features to {}", count, folder));
  }
  return traces;
}

void write_graphs(const TraceOptions& options, const std::vector<ModelTrace>& traces,
                  const GivenPrompts& given, const nlohmann::json& protocol) {
  const auto now = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::system_clock::now().time_since_epoch());
  for (const ModelTrace& trace : traces) {
    const std::string path = name_for_model(options.graph, trace.name, traces.size());
    TraceGraphOrigin origin{.slug = fs::path(path).stem().string(),
                            .scan = trace.scan,
                            .prompt = {},
                            .program = "openwork",
                            .version = kVersion,
                            .feature_url = {},
                            .created_ms = now.count(),
                            .max_nodes = options.max_nodes,
                            .protocol = protocol};
    for (const std::string& token : trace.graph.tokens) origin.prompt += token;
    if (!given.texts.empty()) origin.prompt = given.texts.front();
    const nlohmann::json graph = make_trace_graph(trace.graph, origin, trace.labels);
    // Bytes of a token need not be UTF-8; they are shown with replacement characters rather than refused.
    write_text_file(path, graph.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    print_result(options.common, "wrote " + path);
  }
}

nlohmann::json describe_run(const TraceOptions& options, const std::vector<std::string>& models) {
  nlohmann::json files = nlohmann::json::array();
  for (const std::string& name : models) files.push_back(describe_model_files(name));
  nlohmann::json protocol = make_protocol(options.common);
  protocol.update({{"models", files},
                   {"gates", "hard"},
                   {"max_nodes", options.max_nodes},
                   {"explain", options.explain},
                   {"node_threshold", TraceSettings{}.node_threshold},
                   {"edge_threshold", TraceSettings{}.edge_threshold}});
  return protocol;
}

void run_trace(const TraceOptions& options) {
  apply_common_options(options.common);
  std::vector<std::string> models = options.words;
  const bool many = !options.source.prompts.empty();
  GivenPrompts given;
  if (!many) given = take_prompts(models, options.source);
  check_options(options, models);
  check_models(models);
  const std::vector<std::string> transcoders = choose_transcoders(options, models);
  nlohmann::json protocol = describe_run(options, models);
  if (many) {
    nlohmann::json result = trace_prompts(options, models, transcoders, protocol);
    result["protocol"] = protocol;
    return write_json_result(options.common, result);
  }
  protocol["prompt"] = given.description;
  const std::vector<ModelTrace> traces = trace_models(options, models, transcoders, given, protocol);
  for (const ModelTrace& trace : traces) protocol["transcoders"].push_back(trace.transcoder_files);
  for (const ModelTrace& trace : traces) print_trace(options.common, trace, options.top);
  if (!options.graph.empty()) write_graphs(options, traces, given, protocol);
  if (!options.figure.out.empty()) {
    draw::write_figure(draw_model_traces(traces, given, protocol), options.figure.out, options.figure.dpi);
    print_result(options.common, "wrote " + options.figure.out);
  }
  nlohmann::json result = {{"models", nlohmann::json::array()}, {"protocol", protocol}};
  for (const ModelTrace& trace : traces) result["models"].push_back(trace_json(trace, options.top));
  write_json_result(options.common, result);
}

void add_questions(CLI::App& verb, TraceOptions& options) {
  verb.add_option("--target", options.targets,
                  "the token whose logit is traced (default: the most likely); again for more")
      ->type_name("TOKEN")
      ->allow_extra_args(false);
  verb.add_option("--from", options.from,
                  "key position, or a word of the prompt (default: where most is moved from)")
      ->type_name("POS");
  verb.add_option("--to", options.to, "query position (default: the last)")->type_name("POS");
  verb.add_option("--explain", options.explain, "share of what moves that the counted heads must carry")
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
  verb.add_option("--query-key", options.scores, "a pattern entry's score as pairs of nodes; again for more")
      ->type_name("L5H1:8<-5")
      ->allow_extra_args(false);
}

void add_settings(CLI::App& verb, TraceOptions& options) {
  verb.add_option(
          "--transcoder", options.transcoders,
          "transcoder folder, one per model in their order; none: MLPs are nodes (default: the models' own)")
      ->type_name("DIR")
      ->allow_extra_args(false);
  verb.add_option("--max-nodes", options.max_nodes, "attribute to the N most influential nodes")
      ->type_name("N")
      ->check(between(1, 1 << 20))
      ->capture_default_str();
  verb.add_option("--memory", options.memory, "GiB that tracing may take besides the model")
      ->type_name("X")
      ->check(between(0.001, 4096.0))
      ->capture_default_str();
  verb.add_option("--top", options.top, "nodes and pairs listed")
      ->type_name("N")
      ->check(between(1, 100000))
      ->capture_default_str();
  verb.add_option("--graph", options.graph,
                  "write the graph for public viewers; of several models F-MODEL.json each")
      ->type_name("F.json");
  verb.add_option("--features-out", options.features_out,
                  "write what is known of the graph's features, a file each, for viewers")
      ->type_name("DIR");
  add_figure_file(verb, options.figure);
}

}  // namespace

void add_trace_verb(CLI::App& app) {
  auto options = std::make_shared<TraceOptions>();
  CLI::App* verb =
      app.add_subcommand("trace", "one prompt from its tokens through features and heads to the answer");
  verb->add_option("MODEL... PROMPT", options->words, "one or more models, then the text")
      ->type_name("")
      ->required()
      ->expected(1, 64);
  verb->add_option(
          "--prompts", options->source.prompts,
          "many prompts, JSONL of {\"prompt\", \"target\", \"from\", \"to\"}: heads needed, with intervals")
      ->type_name("FILE");
  verb->add_option("--tokens", options->source.tokens, "token ids instead of a text")->type_name("1,2,3");
  verb->add_option("--tokens-file", options->source.tokens_file, "JSON file [[id, ...]] of one prompt")
      ->type_name("FILE");
  add_questions(*verb, *options);
  add_settings(*verb, *options);
  add_common_options(*verb, options->common);
  verb->footer(
      "Examples:\n"
      "  openwork trace openwork-8m openwork-8m-sparse \"The opposite of 'large' is '\" --out trace.svg\n"
      "  openwork trace openwork-8m \"Once upon a\" --target \" time\" --graph time.json\n"
      "  openwork trace openwork-8m \"A B A\" --ablate L5H1 --boost T@1=2 --query-key L5H1:2<-1\n"
      "  openwork trace smollm2-135m smollm2-135m-sparse --prompts examples/opposites.jsonl --json "
      "heads.json");
  verb->callback([options] { run_trace(*options); });
}

}  // namespace openwork
