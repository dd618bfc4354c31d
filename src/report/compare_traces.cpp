#include "report/compare_traces.h"

#include <fmt/format.h>

#include "analyze/trace/trace_ids.h"
#include "base/error.h"
#include "base/progress.h"
#include "report/captions.h"
#include "report/trace_comparison.h"
#include "report/trace_graph.h"

namespace openwork {
namespace {

constexpr size_t kMostTokens = 64;       // more make a picture that nobody reads, and take minutes
constexpr int64_t kStrongestNodes = 10;  // in the JSON, of each model
constexpr int64_t kMostLinks = 3000;     // in the viewer's graph

}  // namespace

TraceComparison::TraceComparison(std::string prompt, const std::vector<std::string>& models, bool wanted,
                                 bool exact)
    : prompt_(std::move(prompt)), left_out_(!wanted) {
  if (!exact) leave_out("effects are exact in fp32 alone");
  if (!left_out_) transcoders_ = choose_transcoders({}, models);
}

void TraceComparison::leave_out(const std::string& why) {
  if (!left_out_) note(fmt::format("the prompt is not traced: {}", why));
  left_out_ = true;
}

void TraceComparison::add_model(const Transformer& model, const std::string& name, const std::string& title,
                                TokenPrompts prompt) {
  if (left_out_) return;
  const std::vector<int64_t> ids = prompt.ids.front();
  const size_t tokens = ids.size();
  if (tokens < 2) return leave_out("it is one token");
  if (tokens > kMostTokens)
    return leave_out(
        fmt::format("it has {} tokens, more than {}; openwork trace takes it", tokens, kMostTokens));
  TracedModel traced = attach_transcoders(model, name, title, std::move(transcoders_[traces_.size()]));
  traced.tokenizer = std::move(prompt.tokenizer);
  traced.beginning = std::move(prompt.beginning);
  try {
    traces_.push_back(trace_ids(traced, ids, prompt_, {}, {}, traces_.empty() ? nullptr : &traces_.front()));
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kInput) throw;
    leave_out(error.what());  // too large for the memory: the rest of the page is not to go with it
  }
}

std::optional<TraceRecord> TraceComparison::finish(const nlohmann::json& protocol) const {
  if (left_out_ || traces_.empty()) return std::nullopt;
  const std::string prompt = describe_prompts({prompt_}, 1, traces_.front().graph.ids.size());
  return make_trace_record(traces_, kStrongestNodes, prompt, describe_protocol(protocol));
}

nlohmann::json TraceComparison::answer() const {
  if (left_out_ || traces_.empty()) return nullptr;
  nlohmann::json answer = traces_json(traces_, PromptTraceSettings{}.max_nodes, kMostLinks);
  for (size_t n = 0; n < traces_.size(); ++n) answer["models"][n]["name"] = traces_[n].title;
  return answer;
}

}  // namespace openwork
