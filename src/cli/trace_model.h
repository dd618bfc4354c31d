// What `trace` does with one model: opens it with its transcoders, traces a prompt, and gathers everything
// that is printed, drawn and written about it.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "analyze/trace/trace.h"
#include "cli/figure_options.h"
#include "cli/open.h"
#include "cli/prompt_source.h"
#include "report/trace_figure.h"
#include "transcode/descriptions.h"

namespace openwork {

struct TraceOptions {
  CommonOptions common;
  std::vector<std::string> words;  // MODEL... and, last, PROMPT unless tokens are given otherwise
  PromptSourceOptions source;
  std::vector<std::string> targets, transcoders, ablate, boost, scores;
  std::string from, to;  // positions, or words of the prompt; empty: chosen
  std::string graph, features_out;
  FigureFile figure;                 // none unless asked for
  double explain = 0.8, memory = 8;  // memory in GiB
  int64_t max_nodes = 2000, top = 10;
};

// A model with what tracing it needs.
struct TracedModel {
  std::string name;
  Transformer model;
  std::optional<Tokenizer> tokenizer;
  std::vector<int64_t> beginning;            // tokens that stand before each text
  std::optional<Transcoders> transcoders;    // absent: MLPs are nodes
  nlohmann::json transcoder_files;           // for the protocol; null
  std::optional<Descriptions> descriptions;  // what features are about, where the folder says

  std::string text_of(int64_t id) const;  // a token's, or its number where there is no tokenizer
  int64_t count_beginning(const std::vector<int64_t>& ids) const;  // how many of them stand before the text
};

// The folders of --transcoder, one per model; empty: MLPs are nodes. By default each model's own
// transcoders/, where all of the models have one.
std::vector<std::string> choose_transcoders(const TraceOptions& options,
                                            const std::vector<std::string>& models);
TracedModel open_traced_model(const std::string& name, const std::string& transcoders,
                              const CommonOptions& common);
// The same of a model that is open, as `name`.
TracedModel attach_transcoders(Transformer model, const std::string& name, const std::string& transcoders);

struct TracePrompt {
  std::vector<int64_t> ids, targets;
  std::string text;                 // empty where only tokens are known
  std::optional<int64_t> from, to;  // absent: chosen
};

// The prompt in this model's tokens. `from` and `to` are positions or words of the text: a word is its last
// token where it stands last.
TracePrompt read_trace_prompt(const TracedModel& traced, const std::vector<int64_t>& ids,
                              const std::string& text, const std::vector<std::string>& targets,
                              const std::string& from, const std::string& to);

// How much of what is moved to one token comes from each earlier one: absolute head shares of the graph's
// links, each as its part in what reaches the answer.
struct MovedFrom {
  int64_t position = 0;
  double share = 0;
};

struct ModelTrace {
  std::string name;
  TraceGraph graph;
  NodeLabels labels;
  nlohmann::json transcoder_files;             // null: MLPs are nodes
  std::string scan;                            // what public viewers call model and transcoders
  std::optional<HeadExplanation> explanation;  // none of a prompt of one token
  std::vector<MovedFrom> moved;                // to explanation->to, the largest first
  std::vector<TraceIntervention> interventions;
  std::vector<QueryKeyAttribution> scores;
  double bytes_needed = 0;
};

// Writes what is known of every feature in the graph as public viewers read it, NUMBER.json each; returns how
// many.
size_t write_features(const std::string& folder, const TracedModel& traced, const TraceGraph& graph);

ModelTrace trace_prompt(const TracedModel& traced, const TracePrompt& prompt, const TraceOptions& options);

// The one prompt that was given, in this model's tokens; takes the tokenizer along. Where `first`, another
// model's trace, has the same tokens, the same two are asked about.
ModelTrace trace_given(TracedModel& traced, const GivenPrompts& given, const TraceOptions& options,
                       const ModelTrace* first);

// Of several interventions: how many moved the logit the way the graph predicted, and how closely.
struct InterventionAgreement {
  int64_t same_sign = 0, count = 0;
  double correlation = 0;  // Pearson's, predicted against measured; NaN below three
};
InterventionAgreement compare_interventions(const std::vector<TraceIntervention>& interventions);

}  // namespace openwork
