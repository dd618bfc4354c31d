// Phases 2 and 3 of tracing: effects on the targets, then on whichever nodes influence them most, batch by
// batch.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "analyze/trace/batches_apart.h"
#include "analyze/trace/trace_state.h"
#include "base/error.h"

namespace openwork {
namespace {

class Attributor {
 public:
  Attributor(TraceState& state, int64_t rows);

  // Effects on a batch of targets, into rows from `first` on. Batches may be filled side by side.
  void fill(int64_t first, const Targets& targets);
  // Counts them in, in order: `columns` as EffectRows has them.
  void count(const Targets& targets, const std::vector<int64_t>& columns, const std::vector<double>& starts);
  int64_t counted() const { return static_cast<int64_t>(found_.values.size()); }
  // The nodes not yet attributed to that influence the targets most, the last tokens first.
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

void Attributor::fill(int64_t first, const Targets& targets) {
  effects_.narrow(0, first, targets.count()).copy_(find_effects(state_.pass, state_.sources, targets));
}

void Attributor::count(const Targets& targets, const std::vector<int64_t>& columns,
                       const std::vector<double>& starts) {
  const Tensor rows = effects_.narrow(0, counted(), targets.count());
  const Tensor sums = rows.sum(1, false, at::kDouble).to(at::kCPU);
  for (size_t n = 0; n < columns.size(); ++n) {
    const double value = targets.values[n], sum = sums.const_data_ptr<double>()[n];
    if (!std::isfinite(sum) || !std::isfinite(value))
      refuse_effects("effects on " +
                     (columns[n] < 0 ? "the answer" : state_.sources.node(columns[n]).name()));
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
  // Targets of one batch are carried back over the tokens up to the last of them: like tokens go together,
  // the last, which take longest, first.
  std::sort(candidates.begin(), candidates.end(), [&](int64_t a, int64_t b) {
    return std::pair(state_.sources.node(a).position, a) > std::pair(state_.sources.node(b).position, b);
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

// Pieces of `size`, each with the highest layers first.
std::vector<std::vector<int64_t>> cut(const std::vector<int64_t>& columns, int64_t size) {
  std::vector<std::vector<int64_t>> batches;
  for (size_t n = 0; n < columns.size(); ++n) {
    if (n % static_cast<size_t>(size) == 0) batches.emplace_back();
    batches.back().push_back(columns[n]);
  }
  for (auto& batch : batches) std::sort(batch.begin(), batch.end(), std::greater<>());
  return batches;
}

}  // namespace

void refuse_effects(const std::string& what) {
  fail_input(what + " are not finite: products of the model's weights overflow float32", "trace",
             "check the weights");
}

NodeEffects attribute_nodes(TraceState& state, const std::function<void(int64_t, int64_t)>& advance) {
  const bool on_gpu = state.run.embedding.is_cuda();
  const auto logits = static_cast<int64_t>(state.targets.size());
  const int64_t most = std::min(state.settings.max_nodes, state.sources.attributable());
  const int64_t size = trace_batch(state.run.config(), state.run.tokens, state.sources.columns(), on_gpu);
  Attributor attributor(state, logits + most);
  const Targets first = state.reader.logits(state.targets);
  attributor.fill(0, first);
  attributor.count(first, std::vector<int64_t>(state.targets.size(), -1), weigh_targets(state));
  std::mutex advancing;
  int64_t done = 0;
  while (done < most) {
    const auto batches = cut(attributor.choose(std::min(most - done, kTargetsInRound)), size);
    if (batches.empty()) break;
    std::vector<Targets> targets(batches.size());
    const int64_t from = attributor.counted();
    run_batches(batches.size(), on_gpu, [&](size_t n) {
      targets[n] = state.reader.nodes(batches[n]);
      attributor.fill(from + static_cast<int64_t>(n) * size, targets[n]);
      const std::lock_guard lock(advancing);
      done += targets[n].count();
      if (advance) advance(done, most);
    });
    for (size_t n = 0; n < batches.size(); ++n) {
      attributor.count(targets[n], batches[n], std::vector<double>(batches[n].size(), 0.0));
      state.attributed.insert(state.attributed.end(), batches[n].begin(), batches[n].end());
    }
  }
  return attributor.finish();
}

}  // namespace openwork
