// Which heads carry what goes from one token to another: Tracer::explain.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analyze/trace/head_shares.h"
#include "analyze/trace/trace_state.h"
#include "base/error.h"

namespace openwork {
namespace {

constexpr int64_t kTargetsAtOnce = 64;

// The directions of all targets together behind every layer's attention: per layer [to + 1, D].
std::vector<Tensor> sum_directions(const LinearPass& pass, const Targets& targets) {
  std::vector<Tensor> sums(pass.run().layers.size());
  for (int64_t from = 0; from < targets.count(); from += kTargetsAtOnce) {
    std::vector<int64_t> rows;
    for (int64_t n = from; n < std::min(from + kTargetsAtOnce, targets.count()); ++n) rows.push_back(n);
    pass.carry_back(pick_targets(targets, rows), [&](StreamPoint point, int64_t layer, const Tensor& g) {
      if (point != StreamPoint::kMiddle) return;
      Tensor& sum = sums[static_cast<size_t>(layer)];
      sum = sum.defined() ? sum + g.sum(1) : g.sum(1);
    });
  }
  return sums;
}

// Those that are not 0, the largest first by size.
std::vector<HeadShare> by_head(const Tensor& weights, int64_t heads) {
  std::vector<HeadShare> shares;
  for (int64_t n = 0; n < weights.numel(); ++n) {
    const double weight = weights.const_data_ptr<double>()[n];
    if (weight != 0) shares.push_back({{n / heads, n % heads}, weight});
  }
  std::stable_sort(shares.begin(), shares.end(), [](const HeadShare& a, const HeadShare& b) {
    return std::abs(a.weight) > std::abs(b.weight);
  });
  return shares;
}

int64_t count_needed(const std::vector<HeadShare>& heads, double share, double total) {
  double sum = 0;
  for (size_t n = 0; n < heads.size(); ++n) {
    sum += heads[n].weight;
    if (sum >= share * total) return static_cast<int64_t>(n) + 1;
  }
  return static_cast<int64_t>(heads.size());
}

// Columns of everything but biases that writes at a token, by layer.
std::vector<int64_t> sources_at(const TraceState& state, int64_t token) {
  std::vector<int64_t> columns;
  for (int64_t n = 0; n < state.sources.columns(); ++n) {
    const TraceNode& node = state.sources.node(n);
    if (node.position == token && node.kind != TraceNodeKind::kBias) columns.push_back(n);
  }
  std::stable_sort(columns.begin(), columns.end(), [&](int64_t a, int64_t b) {
    return state.sources.node(a).layer < state.sources.node(b).layer;
  });
  return columns;
}

// What was attributed to at a token, as read_targets takes it, the highest layers first.
std::vector<int64_t> targets_at(const TraceState& state, int64_t token) {
  std::vector<int64_t> columns;
  if (token == state.run.tokens - 1) {
    for (size_t n = 0; n < state.targets.size(); ++n) columns.push_back(-1 - static_cast<int64_t>(n));
  }
  std::vector<int64_t> nodes = state.attributed;
  std::sort(nodes.begin(), nodes.end(), std::greater<>());
  for (const int64_t column : nodes) {
    if (state.sources.node(column).position == token) columns.push_back(column);
  }
  return columns;
}

}  // namespace

HeadExplanation Tracer::explain(int64_t from, int64_t to, double share) {
  const at::NoGradGuard no_grad;
  const FrozenRun& run = state_->run;
  if (from < 0 || from >= to || to >= run.tokens) {
    fail_input(fmt::format("from token {} to token {} of {}", from, to, run.tokens), "trace",
               "count tokens from 0, and choose an earlier one to go from");
  }
  find_graph();
  const std::vector<int64_t> sources = sources_at(*state_, from), targets = targets_at(*state_, to);
  HeadExplanation found;
  found.from = from, found.to = to, found.share = share;
  if (targets.empty()) return found;
  const Targets reading = state_->read_targets(targets);

  const int64_t H = run.config().heads, d = run.config().head_size, all = run.config().layers * H;
  Tensor sizes = at::zeros({all}, at::kDouble), sums = at::zeros({all}, at::kDouble),
         flows = at::zeros({all}, at::kDouble);
  const std::vector<Tensor> directions = sum_directions(state_->pass, reading);
  share_by_heads(
      {state_->pass, state_->sources, reading, sources, kShareBatchBytes},
      [&](size_t, const Tensor& shares) {
        sizes += shares.abs().sum(at::IntArrayRef{1, 2}, false, at::kDouble).to(at::kCPU);
        sums += shares.sum(at::IntArrayRef{1, 2}, false, at::kDouble).to(at::kCPU);
      },
      [&](int64_t layer, int64_t head, int64_t first, const Tensor& moved) {
        const Tensor& g = directions[static_cast<size_t>(layer)];
        if (!g.defined()) return;
        const Tensor read =
            at::mm(g.narrow(0, first, moved.size(0)), run.layer(layer).output.narrow(1, head * d, d));
        flows[layer * H + head] += (moved.sum(1) * read).sum(at::kDouble).to(at::kCPU);
      });
  found.heads = by_head(sizes, H);
  found.total = sizes.sum().item<double>();
  found.needed = count_needed(found.heads, share, found.total);
  for (const HeadShare& head : found.heads) {
    found.signed_heads.push_back({head.head, sums[head.head.layer * H + head.head.head].item<double>()});
  }
  found.flows = by_head(flows, H);
  return found;
}

}  // namespace openwork
