// Phases 2 and 3 of tracing: effects on the targets, then on whichever nodes influence them most, batch by
// batch.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyze/trace_state.h"

namespace openwork {
namespace {

constexpr int64_t kBatchesInRound = 4;  // nodes are chosen anew after this many

class Attributor {
 public:
  Attributor(TraceState& state, int64_t rows);

  void attribute(const Targets& targets, const std::vector<int64_t>& columns,
                 const std::vector<double>& starts);
  // The nodes not yet attributed to that influence the targets most, in order of tokens.
  std::vector<int64_t> choose(int64_t most) const;
  NodeEffects finish() const;

 private:
  EffectRows filled_rows() const;

  TraceState& state_;
  Tensor effects_;  // [rows, columns]: room for all
  NodeEffects found_;
  std::vector<bool> done_;
};

Attributor::Attributor(TraceState& state, int64_t rows)
    : state_(state),
      effects_(at::empty({rows, state.sources.columns()}, state.run.embedding.options())),
      done_(static_cast<size_t>(state.sources.attributable()), false) {}

void Attributor::attribute(const Targets& targets, const std::vector<int64_t>& columns,
                           const std::vector<double>& starts) {
  const auto first = static_cast<int64_t>(found_.values.size());
  const Tensor rows = effects_.narrow(0, first, targets.count());
  rows.copy_(find_effects(state_.pass, state_.sources, targets));
  const Tensor sums = rows.sum(1, false, at::kDouble).to(at::kCPU);
  for (size_t n = 0; n < columns.size(); ++n) {
    const double value = targets.values[n], sum = sums.const_data_ptr<double>()[n];
    found_.sums.effects =
        std::max(found_.sums.effects, std::abs(sum - value) / std::max(std::abs(value), 1.0));
    found_.values.push_back(value);
    if (columns[n] >= 0) done_[static_cast<size_t>(columns[n])] = true;
  }
  found_.sums.targets += targets.count();
  EffectRows& kept = found_.rows;
  kept.columns.insert(kept.columns.end(), columns.begin(), columns.end());
  kept.levels.insert(kept.levels.end(), targets.layers.begin(), targets.layers.end());
  kept.starts.insert(kept.starts.end(), starts.begin(), starts.end());
}

EffectRows Attributor::filled_rows() const {
  EffectRows rows = found_.rows;
  rows.weights = effects_.narrow(0, 0, static_cast<int64_t>(found_.values.size()));
  return rows;
}

std::vector<int64_t> Attributor::choose(int64_t most) const {
  const Tensor influence = find_influence(filled_rows());
  const double* values = influence.const_data_ptr<double>();
  std::vector<int64_t> candidates;
  for (int64_t column = 0; column < state_.sources.attributable(); ++column) {
    if (!done_[static_cast<size_t>(column)] && values[column] > 0) candidates.push_back(column);
  }
  const auto end =
      candidates.begin() + std::min<std::ptrdiff_t>(most, static_cast<std::ptrdiff_t>(candidates.size()));
  std::partial_sort(candidates.begin(), end, candidates.end(), [&](int64_t a, int64_t b) {
    return values[a] != values[b] ? values[a] > values[b] : a < b;
  });
  candidates.erase(end, candidates.end());
  // Targets of one batch are carried back over the tokens up to the last of them: like tokens go together.
  std::sort(candidates.begin(), candidates.end(), [&](int64_t a, int64_t b) {
    return std::pair(state_.sources.node(a).position, a) < std::pair(state_.sources.node(b).position, b);
  });
  return candidates;
}

NodeEffects Attributor::finish() const {
  NodeEffects found = found_;
  found.rows = filled_rows();
  return found;
}

// What each target weighs: its probability, among the targets.
std::vector<double> weigh_targets(const TraceState& state) {
  const Tensor probabilities = at::softmax(state.run.logits.to(at::kCPU, at::kDouble), 0);
  std::vector<double> weights;
  double sum = 0;
  for (const int64_t token : state.targets) {
    weights.push_back(probabilities[token].item<double>());
    sum += weights.back();
  }
  for (double& weight : weights) weight = sum > 0 ? weight / sum : 1.0 / static_cast<double>(weights.size());
  return weights;
}

}  // namespace

NodeEffects attribute_nodes(TraceState& state, const std::function<void(int64_t, int64_t)>& advance) {
  const auto logits = static_cast<int64_t>(state.targets.size());
  const int64_t most = std::min(state.settings.max_nodes, state.sources.attributable());
  const int64_t batch = trace_batch(state.run.config(), state.run.tokens, state.sources.columns(),
                                    state.run.embedding.is_cuda());
  Attributor attributor(state, logits + most);
  attributor.attribute(state.reader.logits(state.targets), std::vector<int64_t>(state.targets.size(), -1),
                       weigh_targets(state));
  while (static_cast<int64_t>(state.attributed.size()) < most) {
    const int64_t left = most - static_cast<int64_t>(state.attributed.size());
    const std::vector<int64_t> chosen = attributor.choose(std::min(left, kBatchesInRound * batch));
    if (chosen.empty()) break;
    for (size_t from = 0; from < chosen.size(); from += static_cast<size_t>(batch)) {
      const size_t to = std::min(from + static_cast<size_t>(batch), chosen.size());
      std::vector<int64_t> columns(chosen.begin() + static_cast<std::ptrdiff_t>(from),
                                   chosen.begin() + static_cast<std::ptrdiff_t>(to));
      std::sort(columns.begin(), columns.end(), std::greater<>());  // the highest layers first
      attributor.attribute(state.reader.nodes(columns), columns, std::vector<double>(columns.size(), 0.0));
      state.attributed.insert(state.attributed.end(), columns.begin(), columns.end());
      if (advance) advance(static_cast<int64_t>(state.attributed.size()), most);
    }
  }
  return attributor.finish();
}

}  // namespace openwork
