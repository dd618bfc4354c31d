// openwork trace: which features make a prompt's next token, and which heads carry them from token to token.
#include <fmt/format.h>

#include "analyze/trace/node_changes.h"
#include "base/error.h"
#include "base/number_text.h"
#include "cli/trace_interventions.h"
#include "cli/trace_options.h"
#include "cli/trace_prompts.h"
#include "cli/verbs.h"
#include "draw/figure.h"
#include "report/captions.h"
#include "report/trace_features.h"
#include "report/trace_figure.h"
#include "report/trace_files.h"
#include "report/trace_json.h"
#include "report/trace_text.h"
#include "shell/open.h"
#include "shell/version.h"

namespace openwork {
namespace {

// No model is traced before all have been asked whether they have what is to be changed.
void check_changes_in_all(const TraceOptions& options, const std::vector<std::string>& models,
                          const std::vector<FeatureFolder>& transcoders, const GivenPrompts& given) {
  if (models.size() == 1 || options.settings.changes.empty()) return;  // tracing it asks first
  for (size_t n = 0; n < models.size(); ++n) {
    TracedModel traced = open_traced_model(models, n, transcoders, options.common);
    for (const std::vector<int64_t>& ids : tokenise_for(traced, given, options.common))
      check_node_changes(options.settings.changes, traced, static_cast<int64_t>(ids.size()));
  }
}

std::vector<ModelTrace> trace_models(const TraceOptions& options, const std::vector<std::string>& models,
                                     const std::vector<FeatureFolder>& transcoders, const GivenPrompts& given,
                                     nlohmann::json& protocol) {
  check_changes_in_all(options, models, transcoders, given);
  std::vector<ModelTrace> traces;
  for (size_t n = 0; n < models.size(); ++n) {
    TracedModel traced = open_traced_model(models, n, transcoders, options.common);
    protocol["device"] = traced.model.device().str();
    traces.push_back(trace_given(traced, given, options.common, options.question, options.settings,
                                 traces.empty() ? nullptr : &traces.front()));
    if (n == 0) print_result(options.common, format_trace_header());
    print_results(options.common, format_trace_rows(traces.back()));
    if (options.features_out.empty()) continue;
    const std::string folder = name_for_model(options.features_out, traces.back().title, models.size());
    const size_t count = write_trace_features(folder, traced, traces.back().graph);
    print_result(options.common, fmt::format("wrote {} to {}", count_of(count, "feature"), folder));
  }
  return traces;
}

void write_graphs(const TraceOptions& options, const std::vector<ModelTrace>& traces,
                  const nlohmann::json& protocol) {
  for (const ModelTrace& trace : traces) {
    const std::string path = name_for_model(options.graph, trace.title, traces.size());
    write_trace_graph(path, trace, options.settings.max_nodes, protocol, kVersion);
    print_written(options.common, path);
  }
}

nlohmann::json describe_run(const TraceOptions& options, const std::vector<std::string>& models) {
  nlohmann::json protocol = make_protocol(options.common);
  protocol.update({{"models", describe_models(models)},
                   {"gates", "hard"},
                   {"max_nodes", options.settings.max_nodes},
                   {"explain", options.settings.explain},
                   {"node_threshold", options.settings.node_threshold},
                   {"edge_threshold", options.settings.edge_threshold}});
  return protocol;
}

void write_figure(const TraceOptions& options, const std::vector<ModelTrace>& traces,
                  const GivenPrompts& given, const nlohmann::json& protocol) {
  const std::string prompt = describe_prompts(given.texts, 1, traces.front().graph.ids.size());
  draw::write_figure(draw_model_traces(traces, prompt, describe_protocol(protocol)), options.figure.out,
                     options.figure.dpi);
  print_written(options.common, options.figure.out);
}

void trace_one_prompt(const TraceOptions& options, const std::vector<std::string>& models,
                      const std::vector<FeatureFolder>& transcoders, const GivenPrompts& given,
                      nlohmann::json protocol) {
  protocol["prompt"] = given.description;
  const std::vector<ModelTrace> traces = trace_models(options, models, transcoders, given, protocol);
  for (const ModelTrace& trace : traces) protocol["transcoders"].push_back(to_json(trace.transcoders));
  if (const std::string answers = describe_answers(traces); !answers.empty())
    print_result(options.common, answers + " --target TOKEN traces all to one.");
  for (const ModelTrace& trace : traces) print_results(options.common, format_trace(trace, options.top));
  if (!options.graph.empty()) write_graphs(options, traces, protocol);
  if (!options.figure.out.empty()) write_figure(options, traces, given, protocol);
  nlohmann::json result = {
      {"models", nlohmann::json::array()}, {"one_answer", have_one_answer(traces)}, {"protocol", protocol}};
  for (const ModelTrace& trace : traces) result["models"].push_back(to_json(trace, options.top));
  write_json_result(options.common, result);
}

// Kept graphs as smaller ones, and as the figure that was drawn of them, or would have been.
void use_kept(const TraceOptions& options) {
  check_kept_options(options);
  const KeptTraces kept =
      take_kept_traces(options.from_graphs, {options.node_threshold, options.edge_threshold}, options.graph);
  print_results(options.common, kept.lines);
  if (options.figure.out.empty()) return;
  draw::write_figure(draw_kept_traces(kept.traces), options.figure.out, options.figure.dpi);
  print_written(options.common, options.figure.out);
}

void run_trace(TraceOptions& options) {
  apply_common_options(options.common);
  if (!options.from_graphs.empty()) return use_kept(options);
  std::vector<std::string> models = options.words;
  const bool many = !options.source.prompts.empty() || !options.task.empty();
  GivenPrompts given;
  if (!many) given = take_prompts(models, options.source);
  check_trace_options(options, models);
  settle_trace_options(options);
  check_models(models, options.source.option());
  if (!options.settings.changes.empty())
    for (const std::string& name : models)
      check_changes(options.settings.changes, read_config_of(name), name);
  const std::vector<FeatureFolder> transcoders = choose_transcoders(options.transcoders, models);
  nlohmann::json protocol = describe_run(options, models);
  if (!many) return trace_one_prompt(options, models, transcoders, given, protocol);
  nlohmann::json result =
      options.interventions > 0
          ? study_interventions({options.source.prompts, options.task, options.interventions}, models,
                                transcoders, {.seed = options.common.seed, .trace = options.settings},
                                options.common, protocol)
          : trace_prompt_file(options.source.prompts, models, transcoders, options.settings, options.common,
                              protocol);
  result["protocol"] = protocol;
  write_json_result(options.common, result);
}

}  // namespace

void add_trace_verb(CLI::App& app) {
  auto options = std::make_shared<TraceOptions>();
  CLI::App* verb = add_verb(app, "trace");
  add_trace_options(*verb, *options);
  add_common_options(*verb, options->common);
  verb->footer(
      "Examples:\n"
      "  openwork trace openwork-8m openwork-8m-sparse \"The opposite of 'large' is '\" --out trace.svg\n"
      "  openwork trace openwork-8m \"Once upon a\" --target \" time\" --graph time.json\n"
      "  openwork trace openwork-8m \"A B A\" --ablate L5H1 --boost T@1=2 --query-key L5H1:2<-1\n"
      "  openwork trace openwork-8m openwork-8m-sparse --prompts examples/continuations.jsonl "
      "--interventions\n"
      "  openwork trace --from-graph time.json --out time.svg\n"
      "  openwork trace --from-graph time.json --graph small.json --node-threshold 0.6 --edge-threshold 0.8\n"
      "  openwork trace smollm2-135m smollm2-135m-sparse --prompts examples/opposites.jsonl --json "
      "heads.json");
  verb->callback([options, verb] {
    for (const CLI::Option* option : verb->get_options())
      if (option->count() > 0) options->typed.push_back(option->get_name());
    run_trace(*options);
  });
}

}  // namespace openwork
