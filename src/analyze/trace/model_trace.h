// One prompt traced in one model, and everything that is printed, drawn and written about it, as one record:
//   TracedModel traced = attach_transcoders(model, name, name, folder);
//   ModelTrace trace = trace_prompt(traced, read_trace_prompt(traced, ids, text, question), settings);
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analyze/trace/moved_from.h"
#include "analyze/trace/supernodes.h"
#include "analyze/trace/trace_question.h"

namespace openwork {

struct PromptTraceSettings {
  int64_t max_nodes = 2000;
  int64_t memory = int64_t{8} << 30;                   // bytes besides the model
  double node_threshold = 0.8, edge_threshold = 0.98;  // of the influence, that nodes and links are kept for
  double explain = 0.8;              // share of what moves that the counted heads must carry
  std::vector<NodeChange> changes;   // interventions
  std::vector<PatternEntry> scores;  // to be split into pairs of nodes,
  bool top_score = false;            // and that of the head that carries most of what is explained
  size_t pairs = 10;                 // of which so many are kept
};

struct ModelTrace {
  std::string name, title;  // as in TracedModel
  std::string text;         // of the prompt; empty where only tokens are known
  TraceGraph graph;
  NodeLabels labels;
  std::vector<Supernode> supernodes;
  std::optional<TranscoderFiles> transcoders;  // none: MLPs are nodes
  std::string scan;                            // what public viewers call model and transcoders
  std::optional<HeadExplanation> explanation;  // none of a prompt of one token
  std::vector<MovedFrom> moved;                // to explanation->to, the largest first
  std::vector<TraceIntervention> interventions;
  std::vector<QueryKeyAttribution> scores;
  double bytes_needed = 0;

  const TraceNode& target() const { return graph.nodes[first_target(graph)]; }  // the answer it is traced to
  const std::string& target_text() const { return labels[first_target(graph)]; }
};

// Where the prompt does not say, what moves is explained to the last token, from the one that most is moved
// from. What cannot be (heads, nodes and positions of `scores` and `changes`) fails before the work. `advance(done, all)` counts
// nodes attributed.
ModelTrace trace_prompt(const TracedModel& traced, const TracePrompt& prompt,
                        const PromptTraceSettings& settings,
                        const std::function<void(int64_t, int64_t)>& advance = nullptr);

// Asks about the same two tokens as another model's trace, where the tokens are the same and it is open.
void ask_as(const ModelTrace& first, TracePrompt& prompt);

// Whether all are traced to the same answer, by its text: token numbers are a tokenizer's own.
bool have_one_answer(const std::vector<ModelTrace>& traces);

}  // namespace openwork
