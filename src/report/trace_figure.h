// Traced prompts as the figure of draw/trace_diagram.h: nodes gathered in supernodes (analyze/trace/supernodes.h), the
// links between those weighted by their parts in what reaches the answer, and the heads that carry it.
// Parts make links into different features comparable, as their own units (pre-activations) are not.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "analyze/trace/model_trace.h"
#include "draw/trace_diagram.h"

namespace openwork {

struct TracePicture {
  std::string name;  // of the model
  const TraceGraph* graph = nullptr;
  std::optional<HeadExplanation> explanation;  // the caption, and which tokens are framed
  NodeLabels labels;
  std::vector<Supernode> supernodes = {};  // none: made of graph and labels
};

// "L11H7, L10H1, ...": the heads that carry the share, at most `most` named.
std::string list_heads(const HeadExplanation& explanation, size_t most);

// "5 heads carry 80 % of key 5 -> query 8: L11H7, L10H1, ..."; at most `most` heads named.
std::string explain_in_one_line(
    const HeadExplanation& explanation, size_t most,
    const std::vector<std::string>& tokens = {});  // of the prompt, named where given

// "'Mary' (on 'her') moves to the answer by L7H5 58 %, L7H1 15 %; ...": the strongest moves of a panel, in words.
std::string tell_moves(const draw::TracePanel& panel, size_t most);

draw::TracePanel make_trace_panel(const TracePicture& picture);
draw::Figure draw_traces(const std::vector<TracePicture>& pictures, const draw::Caption& caption);

// "replacement score 0.62, completeness 0.85, ...": what a graph with transcoders is worth, in one line.
std::string describe_worth(const TraceGraph& graph);

// "openwork-8m is traced to time, openwork-8m-sparse to day: ..."; empty where all are traced to one answer.
std::string describe_answers(const std::vector<ModelTrace>& traces);

// The scores of pattern entries that were asked about, a table each.
std::vector<draw::Figure> draw_scores(const ModelTrace& trace);

// Traced models one above the other, with what is drawn and what it is worth below, and the scores asked about after
// them. `prompt` is the subtitle,
// `protocol` the line that says how to repeat it.
draw::Figure draw_model_traces(const std::vector<ModelTrace>& traces, const std::string& prompt,
                               const std::string& protocol);

}  // namespace openwork
