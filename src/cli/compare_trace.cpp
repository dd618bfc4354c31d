#include "cli/compare_trace.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/progress.h"
#include "cli/figure_options.h"
#include "cli/trace_report.h"
#include "draw/token_marks.h"

namespace openwork {
namespace {

constexpr size_t kMostTokens = 64;  // more make a picture that nobody reads, and take minutes
constexpr size_t kHeadsNamed = 8;

std::string mark_position(const TraceGraph& graph, int64_t position) {
  return fmt::format("{} ({})", draw::mark_token(graph.tokens[static_cast<size_t>(position)]), position);
}

TracedModelRecord to_record(const ModelTrace& trace) {
  const TraceGraph& graph = trace.graph;
  const auto answer = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                   [](const TraceNode& node) { return node.kind == TraceNodeKind::kLogit; });
  return {.name = short_name(trace.name),
          .answer = draw::mark_token(trace.labels[static_cast<size_t>(answer - graph.nodes.begin())]),
          .probability = answer->probability,
          .heads_needed = trace.explanation->needed,
          .heads = graph.layers * graph.heads,
          .first_heads = list_heads(*trace.explanation, kHeadsNamed)};
}

}  // namespace

TraceComparison::TraceComparison(const CompareOptions& options) : left_out_(options.no_trace) {
  options_.common = options.common;
  given_.texts = {options.prompt};
  if (options.common.dtype != "fp32") leave_out("effects are exact in fp32 alone");
  if (!left_out_) transcoders_ = choose_transcoders(options_, options.models);
}

void TraceComparison::leave_out(const std::string& why) {
  if (!left_out_) note(fmt::format("the prompt is not traced: {}", why));
  left_out_ = true;
}

void TraceComparison::add_model(const Transformer& model, const std::string& name) {
  if (left_out_) return;
  const size_t tokens = tokenise_prompts(given_, name, model.config(), options_.common).ids.front().size();
  if (tokens < 2) return leave_out("it is one token");
  if (tokens > kMostTokens)
    return leave_out(
        fmt::format("it has {} tokens, more than {}; openwork trace takes it", tokens, kMostTokens));
  TracedModel traced = attach_transcoders(model, name, transcoders_[traces_.size()]);
  try {
    traces_.push_back(trace_given(traced, given_, options_, traces_.empty() ? nullptr : &traces_.front()));
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kInput) throw;
    leave_out(error.what());  // too large for the memory: the rest of the page is not to go with it
  }
}

std::optional<TraceRecord> TraceComparison::finish(const nlohmann::json& protocol) const {
  if (left_out_ || traces_.empty()) return std::nullopt;
  const ModelTrace& first = traces_.front();
  TraceRecord record{.from = mark_position(first.graph, first.explanation->from),
                     .to = mark_position(first.graph, first.explanation->to),
                     .share = options_.explain,
                     .features = !first.transcoder_files.is_null(),
                     .models = {},
                     .json = nlohmann::json::array(),
                     .figures = {}};
  for (const ModelTrace& trace : traces_) {
    record.models.push_back(to_record(trace));
    record.json.push_back(trace_json(trace, options_.top));
  }
  record.figures.push_back({"trace",
                            "The prompt's tokens, the features or MLPs and heads between, and the answer.",
                            draw_model_traces(traces_, given_, protocol)});
  return record;
}

}  // namespace openwork
