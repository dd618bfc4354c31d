// Nodes or heads set to so many times what they were, and what becomes of the first target's logit:
// Tracer::intervene. The model is run again, a change to each run of a batch, by taps: with patterns, norm scales and
// all other nodes held as they were, which the graph's direct effect must predict; then with one thing more free to
// follow at a time (held_run.h), up to the model itself.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "analyze/trace/held_run.h"
#include "base/error.h"

namespace openwork {
namespace {

constexpr size_t kChangesAtOnce = 32;

// What one intervention adds to the stream at a token; or the head whose z is multiplied.
struct Change {
  struct Addition {
    int64_t layer = -1;  // whose MLP output; -1: the embedding
    int64_t position = 0;
    Tensor row;  // [D]
  };
  std::vector<Addition> additions;
  std::optional<HeadPlace> head;
  double factor = 1;
  double predicted = 0, total = 0;
};
using Changes = std::vector<Change>;  // one for each run of a batch

// The head a name means; none where it is no head's.
std::optional<HeadPlace> find_head(const std::string& name, const ModelConfig& config) {
  const std::optional<HeadPlace> head = parse_head_place(name);
  if (!head || (head->layer < config.layers && head->head < config.heads)) return head;
  fail_input(fmt::format("no head {}", head->name()), "trace",
             fmt::format("the model has {} layers of {} heads", config.layers, config.heads));
}

Change change_source(TraceState& state, int64_t column, double factor) {
  const FrozenRun& run = state.run;
  const int64_t position = state.sources.node(column).position;
  Change change;
  const auto add = [&](StreamPoint point, int64_t layer) {
    for (const SourcePiece& piece : state.sources.pieces_at(point, layer)) {
      const int64_t local = column - piece.first;
      if (local < 0 || local >= piece.count()) continue;
      const Tensor index = at::tensor({local}, at::kLong).to(run.ids.device());
      change.additions.push_back({layer, position, piece.rows_of(index)[0] * (factor - 1)});
    }
  };
  add(StreamPoint::kStart, -1);
  for (int64_t l = 0; l < run.config().layers; ++l) add(StreamPoint::kOutput, l);
  const auto effect = [&](EffectPaths paths) {
    return (factor - 1) * state.answer_effects(paths).sources[column].item<double>();
  };
  change.predicted = effect(EffectPaths::kDirect), change.total = effect(EffectPaths::kTotal);
  return change;
}

Change change_head(TraceState& state, HeadPlace head, double factor) {
  const auto effect = [&](EffectPaths paths) {
    return (factor - 1) * state.answer_effects(paths).heads[head.layer][head.head].item<double>();
  };
  return {.additions = {},
          .head = head,
          .factor = factor,
          .predicted = effect(EffectPaths::kDirect),
          .total = effect(EffectPaths::kTotal)};
}

// The column of a node that can be changed.
int64_t find_source(const TraceState& state, const std::string& node) {
  const int64_t column = state.sources.find(node);
  if (state.sources.node(column).kind == TraceNodeKind::kBias) {
    fail_input(fmt::format("{} is a bias", node), "trace",
               "change a feature, an MLP, an error, an embedding or a head");
  }
  return column;
}

Change find_change(TraceState& state, const NodeChange& wanted) {
  if (const auto head = find_head(wanted.node, state.run.config()))
    return change_head(state, *head, wanted.factor);
  return change_source(state, find_source(state, wanted.node), wanted.factor);
}

// Run b of the batch has changes[b]: x [B, T, D] at the embedding (layer -1) or at a layer's MLP output.
Tensor add_rows(const Changes& changes, int64_t layer, const Tensor& x) {
  Tensor changed = x.expand({static_cast<int64_t>(changes.size()), -1, -1}).clone();
  for (size_t b = 0; b < changes.size(); ++b) {
    for (const Change::Addition& addition : changes[b].additions) {
      if (addition.layer == layer) changed[static_cast<int64_t>(b)][addition.position].add_(addition.row);
    }
  }
  return changed;
}

void add_changes(const Changes& changes, int64_t layers, Taps& taps) {
  std::vector<bool> written(static_cast<size_t>(layers) + 1), multiplied(written.size());
  for (const Change& change : changes) {
    for (const Change::Addition& addition : change.additions)
      written[static_cast<size_t>(addition.layer + 1)] = true;
    if (change.head) multiplied[static_cast<size_t>(change.head->layer)] = true;
  }
  if (written[0])
    taps.replace({Site::kEmbed, -1}, [&changes](const Tensor& x) { return add_rows(changes, -1, x); });
  for (int64_t l = 0; l < layers; ++l) {
    if (written[static_cast<size_t>(l + 1)])
      taps.replace({Site::kMlpOut, l}, [&changes, l](const Tensor& x) { return add_rows(changes, l, x); });
    if (!multiplied[static_cast<size_t>(l)]) continue;
    taps.replace({Site::kZ, l}, [&changes, l](const Tensor& z) {  // [B, T, H, d]
      Tensor changed = z.clone();
      for (size_t b = 0; b < changes.size(); ++b) {
        if (const auto& head = changes[b].head; head && head->layer == l)
          changed[static_cast<int64_t>(b)].select(1, head->head).mul_(changes[b].factor);
      }
      return changed;
    });
  }
}

// The first target's logit of each run: [B], on the CPU.
Tensor read_logits(const TraceState& state, size_t runs, const Taps& taps) {
  ForwardOptions options;
  options.taps = &taps;
  options.last_only = true;
  const auto B = static_cast<int64_t>(runs);
  const Tensor logits = state.run.model.forward(state.run.ids.expand({B, -1}), options).view({B, -1});
  return logits.select(1, state.targets.front()).to(at::kCPU, at::kDouble).contiguous();
}

// What a batch of changes does to the logit in a run with so much held: [changes], on the CPU.
Tensor run_changes(const TraceState& state, Changes changes, const Held& held) {
  changes.emplace_back();  // nothing changed, in the same batch: one of another size may round differently
  Taps taps;
  hold(state, held, taps);
  add_changes(changes, state.run.config().layers, taps);
  const Tensor logits = read_logits(state, changes.size(), taps);
  return (logits - logits[-1]).contiguous();
}

void measure_changes(const TraceState& state, const Changes& changes, TraceIntervention* found) {
  const auto measure = [&](const Held& held, const auto& place) {
    const Tensor moved = run_changes(state, changes, held);
    for (size_t n = 0; n < changes.size(); ++n) place(found[n]) = moved.const_data_ptr<double>()[n];
  };
  measure({.nodes = true}, [](TraceIntervention& one) -> double& { return one.frozen; });
  Held held;
  for (const Following step : kFollowings) {
    held[step] = false;
    measure(held, [step](TraceIntervention& one) -> double& { return one.by(step); });
  }
  held.replaced = false;
  measure(held, [](TraceIntervention& one) -> double& { return one.measured; });
  held[Following::kPatterns] = true;
  measure(held, [](TraceIntervention& one) -> double& { return one.patterns_held; });
}

}  // namespace

void Tracer::check_changes(const std::vector<NodeChange>& changes) const {
  for (const NodeChange& change : changes) {
    if (!find_head(change.node, state_->run.config())) find_source(*state_, change.node);
  }
}

std::vector<TraceIntervention> Tracer::intervene(const std::vector<NodeChange>& wanted) {
  const at::NoGradGuard no_grad;
  Changes changes;
  std::vector<TraceIntervention> found;
  for (const NodeChange& change : wanted) {
    changes.push_back(find_change(*state_, change));
    found.push_back({.node = change.node,
                     .factor = change.factor,
                     .predicted = changes.back().predicted,
                     .total = changes.back().total});
  }
  for (size_t from = 0; from < changes.size(); from += kChangesAtOnce) {
    const size_t to = std::min(from + kChangesAtOnce, changes.size());
    const Changes batch(changes.begin() + static_cast<std::ptrdiff_t>(from),
                        changes.begin() + static_cast<std::ptrdiff_t>(to));
    measure_changes(*state_, batch, &found[from]);
  }
  return found;
}

TraceIntervention Tracer::intervene(const std::string& node, double factor) {
  return intervene({{node, factor}}).front();
}

}  // namespace openwork
