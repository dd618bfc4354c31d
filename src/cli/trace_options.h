// The options of `trace`, and what they say in plain settings.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "analyze/trace/model_trace.h"
#include "shell/common.h"
#include "shell/figure_options.h"
#include "shell/prompt_source.h"

namespace openwork {

struct TraceOptions {
  CommonOptions common;
  std::vector<std::string> words;  // MODEL... and, last, PROMPT unless tokens are given otherwise
  PromptSourceOptions source;
  TraceQuestion question;
  PromptTraceSettings settings;
  std::vector<std::string> transcoders, ablate, boost, scores;
  std::vector<std::string> from_graphs;  // kept files to be drawn or pruned, without a model
  std::optional<double> node_threshold, edge_threshold;
  std::vector<std::string> typed;  // names of the options that were given
  std::string graph, features_out;
  FigureFile figure;  // none unless asked for
  double memory = 8;  // GiB
  int64_t top = 10;
  std::string task;           // whose prompts are studied
  int64_t interventions = 0;  // prompts in whose graphs features and heads are knocked out; 0: none asked for
};

void add_trace_options(CLI::App& verb, TraceOptions& options);

// Fails where options do not fit together: before any model is opened.
void check_trace_options(const TraceOptions& options, const std::vector<std::string>& models);

// The same where graphs are read and no model: before any of them is.
void check_kept_options(const TraceOptions& options);

// What the options say, in options.settings.
void settle_trace_options(TraceOptions& options);

// Fails on names that are no node's, and heads and layers that the model has not: before it is opened. Positions and
// features are checked when the prompt is in tokens (analyze/trace/node_changes.h).
void check_changes(const std::vector<NodeChange>& changes, const ModelConfig& config,
                   const std::string& model);

}  // namespace openwork
