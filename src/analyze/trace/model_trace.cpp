#include "analyze/trace/model_trace.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "analyze/trace/node_changes.h"
#include "analyze/trace/trace.h"
#include "base/error.h"

namespace openwork {
namespace {

void check_entries(const std::vector<PatternEntry>& entries, const ModelConfig& config, int64_t tokens) {
  for (const PatternEntry& entry : entries) {
    if (entry.head.layer >= config.layers || entry.head.head >= config.heads) {
      fail_input(fmt::format("no head {}", entry.head.name()), "--query-key",
                 fmt::format("the model has {} layers of {} heads", config.layers, config.heads));
    }
    if (entry.query >= tokens) {
      fail_input(fmt::format("no pattern entry {} in {} tokens", entry.name(), tokens), "--query-key",
                 fmt::format("positions are 0 to {}, the key not after the query", tokens - 1));
    }
  }
}

// Which heads carry what moves between the two tokens of the prompt's question.
HeadExplanation explain_move(Tracer& tracer, const TracedModel& traced, const TracePrompt& prompt,
                             const std::vector<MovedFrom>& moved, int64_t to, double share) {
  const int64_t first = std::max<int64_t>(1, traced.count_beginning(prompt.ids));
  const int64_t from = prompt.from ? *prompt.from : to > 0 ? choose_source(moved, first, to) : 0;
  if (from >= to) {
    fail_input(fmt::format("from position {} to position {}", from, to), "--from, --to",
               "something moves from an earlier token to a later one");
  }
  return tracer.explain(from, to, share);
}

}  // namespace

ModelTrace trace_prompt(const TracedModel& traced, const TracePrompt& prompt,
                        const PromptTraceSettings& settings,
                        const std::function<void(int64_t, int64_t)>& advance) {
  const int64_t tokens = static_cast<int64_t>(prompt.ids.size());
  check_entries(settings.scores, traced.model.config(), tokens);
  check_node_changes(settings.changes, traced, tokens);
  TraceSettings how;
  how.targets = prompt.targets, how.max_nodes = settings.max_nodes, how.memory = settings.memory;
  how.node_threshold = settings.node_threshold, how.edge_threshold = settings.edge_threshold;
  const Transcoders* transcoders = traced.transcoders ? &*traced.transcoders : nullptr;

  ModelTrace trace;
  trace.name = traced.name, trace.title = traced.title, trace.text = prompt.text;
  trace.transcoders = traced.files;
  trace.scan = transcoders != nullptr && !transcoders->scan.empty() ? transcoders->scan : traced.name;
  trace.bytes_needed =
      static_cast<double>(Tracer::bytes_needed(traced.model.config(), transcoders, tokens, how));
  Tracer tracer(traced.model, transcoders, at::tensor(prompt.ids, at::kLong), how);
  tracer.check_changes(settings.changes);  // now that the prompt's active features are known
  trace.graph = tracer.find_graph(advance);
  for (const int64_t id : prompt.ids) trace.graph.tokens.push_back(traced.text_of(id));
  NodeWords words;
  for (const TraceNode& node : trace.graph.nodes) {
    trace.labels.push_back(label_node(traced, node));
    words.push_back(list_words(traced, node));
  }
  trace.supernodes = group_nodes(trace.graph, trace.labels, words);
  if (tokens > 1) {
    const int64_t to = prompt.to.value_or(tokens - 1);
    trace.moved = find_moved(trace.graph, to);
    trace.explanation = explain_move(tracer, traced, prompt, trace.moved, to, settings.explain);
  }
  trace.interventions = tracer.intervene(settings.changes);
  std::vector<PatternEntry> scores = settings.scores;
  if (settings.top_score && trace.explanation && !trace.explanation->heads.empty())
    scores.push_back({trace.explanation->heads.front().head, trace.explanation->to, trace.explanation->from});
  for (const PatternEntry& entry : scores)
    trace.scores.push_back(tracer.attribute_score(entry.head, entry.query, entry.key, settings.pairs));
  return trace;
}

void ask_as(const ModelTrace& first, TracePrompt& prompt) {
  if (!prompt.from && first.graph.ids == prompt.ids && first.explanation)
    prompt.from = first.explanation->from;
}

bool have_one_answer(const std::vector<ModelTrace>& traces) {
  return std::all_of(traces.begin(), traces.end(), [&](const ModelTrace& trace) {
    return trace.target_text() == traces.front().target_text();
  });
}

}  // namespace openwork
