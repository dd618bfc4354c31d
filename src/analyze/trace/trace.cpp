// Tracing in the phases that trace.h numbers.
#include "analyze/trace/trace.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "analyze/trace/trace_state.h"
#include "base/error.h"

namespace openwork {
namespace {

void check_memory(int64_t tokens, int64_t bytes, const TraceSettings& settings) {
  if (bytes <= settings.memory) return;
  fail_input(fmt::format("tracing {} tokens takes {} bytes, more than the {} it may use", tokens, bytes,
                         settings.memory),
             "trace", "use a shorter prompt, a smaller --max-nodes or a larger --memory");
}

// Fails before anything is run where model, transcoders, prompt and memory do not go together.
const Transformer& check_traceable(const Transformer& model, const Transcoders* transcoders,
                                   const Tensor& ids, const TraceSettings& settings) {
  if (model.dtype() != at::kFloat) {
    fail_input(fmt::format("a model opened as {}", c10::toString(model.dtype())), "trace",
               "use --dtype fp32");
  }
  if (ids.dim() != 1 || ids.size(0) < 1) fail_input("an empty prompt", "trace", "give at least one token");
  for (const int64_t token : settings.targets) {
    if (token >= 0 && token < model.config().vocabulary) continue;
    fail_input(fmt::format("target token {} of a vocabulary of {}", token, model.config().vocabulary),
               "trace", "choose a token that the model has");
  }
  if (transcoders != nullptr) {
    check_transcoders_fit(*transcoders, model.config(), "", "trace");
    if (transcoders->layers.front().encoder.device() != model.device()) {
      fail_input("transcoders on another device than the model", "trace", "load both onto one device");
    }
  }
  check_memory(ids.size(0), Tracer::bytes_needed(model.config(), transcoders, ids.size(0), settings),
               settings);
  return model;
}

std::vector<int64_t> choose_targets(const FrozenRun& run, const std::vector<int64_t>& targets) {
  return targets.empty() ? std::vector<int64_t>{run.logits.argmax().item<int64_t>()} : targets;
}

}  // namespace

TraceState::TraceState(const Transformer& model, const Transcoders* transcoders, const Tensor& ids,
                       TraceSettings given)
    : transcoders(transcoders),
      settings(std::move(given)),
      run(run_frozen(check_traceable(model, transcoders, ids, settings), transcoders,
                     ids.to(model.device(), at::kLong))),
      sources(run, transcoders),
      pass(run, transcoders),
      targets(choose_targets(run, settings.targets)),
      reader(pass, sources, transcoders, targets.front()) {
  // Now that the prompt's features are known.
  check_memory(run.tokens,
               trace_bytes(run.config(), transcoders, run.tokens, sources.attributable(), settings),
               settings);
}

const Tensor& TraceState::effects_on_first_target() {
  if (!first_effects.defined()) {
    first_effects =
        find_effects(pass, sources, reader.logits({targets.front()}))[0].to(at::kCPU).contiguous();
  }
  return first_effects;
}

const AnswerEffects& TraceState::answer_effects(EffectPaths paths) {
  std::optional<AnswerEffects>& kept = paths == EffectPaths::kDirect ? direct : total;
  if (!kept) kept = find_answer_effects(*this, paths);
  return *kept;
}

Targets TraceState::read_targets(const std::vector<int64_t>& columns) const {
  std::vector<int64_t> nodes, rows;
  for (const int64_t column : columns) {
    if (column >= 0) nodes.push_back(column);
  }
  const Targets parts[] = {reader.nodes(nodes), reader.logits(targets)};
  Targets joined = parts[0];
  joined.layers.insert(joined.layers.end(), parts[1].layers.begin(), parts[1].layers.end());
  joined.positions.insert(joined.positions.end(), parts[1].positions.begin(), parts[1].positions.end());
  joined.values.insert(joined.values.end(), parts[1].values.begin(), parts[1].values.end());
  joined.directions = at::cat({joined.directions, parts[1].directions});
  joined.constants = at::cat({joined.constants, parts[1].constants});
  int64_t node = 0;
  for (const int64_t column : columns) {
    rows.push_back(column >= 0 ? node++ : static_cast<int64_t>(nodes.size()) + (-1 - column));
  }
  return pick_targets(joined, rows);
}

Tracer::Tracer(const Transformer& model, const Transcoders* transcoders, const Tensor& ids,
               TraceSettings settings) {
  const at::NoGradGuard no_grad;
  state_ = std::make_unique<TraceState>(model, transcoders, ids, std::move(settings));
}

Tracer::~Tracer() = default;

const TraceGraph& Tracer::find_graph(const std::function<void(int64_t, int64_t)>& advance) {
  const at::NoGradGuard no_grad;
  if (!state_->graph) state_->graph = build_graph(*state_, attribute_nodes(*state_, advance));
  return *state_->graph;
}

const std::vector<TraceNode>& Tracer::sources() const {
  return state_->sources.nodes();
}

}  // namespace openwork
