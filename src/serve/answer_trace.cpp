// One answer traced back to the prompt's tokens: the graph, and which heads carry what moves.
#include "analyze/trace/trace.h"
#include "report/trace_graph.h"
#include "serve/answers.h"

namespace openwork::serve {
namespace {

TracePrompt read_prompt(const TracedModel& model, const TraceRequest& request) {
  TraceQuestion question;
  if (request.target) question.targets = {*request.target};
  question.from = request.from.value_or("");
  question.to = request.to.value_or("");
  question.where = "request";
  return read_trace_prompt(model, tokenise(model, request.prompt), request.prompt, question);
}

ModelTrace trace_model(const TracedModel& model, const TraceRequest& request, const ModelTrace* first,
                       Work& work) {
  TracePrompt prompt = read_prompt(model, request);
  if (first != nullptr) ask_as(*first, prompt);
  PromptTraceSettings settings;
  settings.max_nodes = request.max_nodes;
  settings.explain = request.explain;
  work.tell(model.name, 0, static_cast<uint64_t>(request.max_nodes));
  return trace_prompt(model, prompt, settings, [&](int64_t done, int64_t all) {
    work.tell(model.name, static_cast<uint64_t>(done), static_cast<uint64_t>(all));
  });
}

}  // namespace

void check(const ServedModels& models, const TraceRequest& request) {
  for (const TracedModel* model : models.select(request.models)) read_prompt(*model, request);
}

Answer answer(const ServedModels& models, const TraceRequest& request, Work& work) {
  std::vector<ModelTrace> traces;
  for (const TracedModel* model : models.select(request.models))
    traces.push_back(trace_model(*model, request, traces.empty() ? nullptr : &traces.front(), work));
  return json_answer(traces_json(traces, request.max_nodes, request.max_links));
}

}  // namespace openwork::serve
