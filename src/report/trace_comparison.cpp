#include "report/trace_comparison.h"

#include <fmt/format.h>

#include "base/token_marks.h"
#include "report/trace_figure.h"
#include "report/trace_json.h"

namespace openwork {
namespace {

constexpr size_t kHeadsNamed = 8;

std::string mark_position(const TraceGraph& graph, int64_t position) {
  return fmt::format("{} ({})", mark_token(graph.tokens[static_cast<size_t>(position)]), position);
}

TracedModelRecord to_record(const ModelTrace& trace) {
  return {.name = trace.title,
          .answer = mark_token(trace.target_text()),
          .probability = trace.target().probability,
          .heads_needed = trace.explanation->needed,
          .heads = trace.graph.layers * trace.graph.heads,
          .first_heads = list_heads(*trace.explanation, kHeadsNamed),
          .target = trace.target().feature};
}

}  // namespace

TraceRecord make_trace_record(const std::vector<ModelTrace>& traces, int64_t top, const std::string& prompt,
                              const std::string& protocol) {
  const ModelTrace& first = traces.front();
  TraceRecord record{.from = mark_position(first.graph, first.explanation->from),
                     .to = mark_position(first.graph, first.explanation->to),
                     .share = first.explanation->share,
                     .features = first.transcoders.has_value(),
                     .models = {},
                     .json = nlohmann::json::array(),
                     .figures = {},
                     .answers = describe_answers(traces)};
  for (const ModelTrace& trace : traces) {
    record.models.push_back(to_record(trace));
    record.json.push_back(to_json(trace, top));
  }
  record.figures.push_back({"trace",
                            "The prompt's tokens, the features or MLPs and heads between, and the answer.",
                            draw_model_traces(traces, prompt, protocol)});
  return record;
}

}  // namespace openwork
