#include "analyze/trace/influence.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <map>

namespace openwork {
namespace {

// Rows by level, the highest first.
std::map<int64_t, std::vector<int64_t>, std::greater<>> group_rows(const EffectRows& effects) {
  std::map<int64_t, std::vector<int64_t>, std::greater<>> groups;
  for (size_t row = 0; row < effects.levels.size(); ++row) {
    groups[effects.levels[row]].push_back(static_cast<int64_t>(row));
  }
  return groups;
}

// The smallest score among those that, largest first, make up `share` of all; above every score where all are
// 0.
double find_threshold(const Tensor& scores, double share) {
  const Tensor sorted = std::get<0>(scores.masked_select(scores > 0).sort(-1, /*descending=*/true));
  if (sorted.numel() == 0) return std::numeric_limits<double>::infinity();
  const Tensor sums = sorted.cumsum(0, at::kDouble);
  const double total = sums[-1].item<double>();
  const int64_t index = at::searchsorted(sums, at::tensor({share * total}, at::kDouble)).item<int64_t>();
  return sorted[std::min(index, sorted.numel() - 1)].item<double>();
}

Tensor as_mask(const std::vector<bool>& flags) {
  Tensor mask = at::zeros({static_cast<int64_t>(flags.size())}, at::kBool);
  for (size_t n = 0; n < flags.size(); ++n) mask.data_ptr<bool>()[n] = flags[n];
  return mask;
}

std::vector<bool> as_flags(const Tensor& mask) {
  const bool* const first = mask.const_data_ptr<bool>();
  return std::vector<bool>(first, first + mask.numel());
}

// Which rows stay when these columns do: those of kept columns, and logits.
Tensor kept_rows(const EffectRows& effects, const Tensor& columns) {
  Tensor rows = at::ones({static_cast<int64_t>(effects.columns.size())}, at::kBool);
  for (size_t row = 0; row < effects.columns.size(); ++row) {
    const int64_t column = effects.columns[row];
    if (column >= 0) rows.data_ptr<bool>()[row] = columns.const_data_ptr<bool>()[column];
  }
  return rows;
}

std::vector<double> accumulate_shares(const Tensor& influence) {
  const auto [sorted, order] = influence.sort(0, /*descending=*/true);
  const Tensor sums = sorted.cumsum(0) / sorted.sum().clamp_min(kSmallestSum);
  std::vector<double> shares(static_cast<size_t>(influence.numel()));
  for (int64_t n = 0; n < influence.numel(); ++n) {
    shares[static_cast<size_t>(order.const_data_ptr<int64_t>()[n])] = sums.const_data_ptr<double>()[n];
  }
  return shares;
}

}  // namespace

std::vector<double> row_influence(const EffectRows& effects, const Tensor& influence) {
  std::vector<double> rows = effects.starts;
  const double* values = influence.const_data_ptr<double>();
  for (size_t row = 0; row < rows.size(); ++row) {
    if (effects.columns[row] >= 0) rows[row] += values[effects.columns[row]];
  }
  return rows;
}

Tensor find_influence(const EffectRows& effects) {
  const auto options = effects.weights.options();
  Tensor influence = at::zeros({effects.weights.size(1)}, at::kDouble);
  // From the highest level down, every row's own influence is whole before it is passed on.
  for (const auto& [level, rows] : group_rows(effects)) {
    const std::vector<double> known = row_influence(effects, influence);
    std::vector<double> passed;
    for (const int64_t row : rows) passed.push_back(known[static_cast<size_t>(row)]);
    const Tensor sizes =
        effects.weights.index_select(0, at::tensor(rows, at::kLong).to(options.device())).abs();
    const Tensor weights = at::tensor(passed, at::kDouble).to(options) / sizes.sum(1).clamp_min(kSmallestSum);
    influence += at::mv(sizes.t(), weights).to(at::kCPU, at::kDouble);
  }
  return influence;
}

PrunedLinks prune_links(const EffectRows& effects, const std::vector<bool>& chosen,
                        const std::vector<bool>& always, double edge_threshold) {
  Tensor nodes = as_mask(chosen);
  const Tensor stay = as_mask(always);
  EffectRows left = effects;
  left.weights = effects.weights.to(at::kCPU) * nodes.unsqueeze(0) * kept_rows(effects, nodes).unsqueeze(1);
  const Tensor passed = at::tensor(row_influence(left, find_influence(left)), at::kDouble).to(at::kFloat);
  Tensor scores = left.weights.abs();
  scores.mul_((passed / scores.sum(1).clamp_min(kSmallestSum)).unsqueeze(1));
  // All is all: sums of the smallest scores would round some of them away.
  Tensor links =
      edge_threshold >= 1 ? left.weights != 0 : scores >= find_threshold(scores.flatten(), edge_threshold);

  std::vector<bool> is_row(always.size(), false);
  for (const int64_t column : effects.columns) {
    if (column >= 0) is_row[static_cast<size_t>(column)] = true;
  }
  const Tensor needs_links_in = as_mask(is_row);
  // Each removal may leave another node without a link; there are no more rounds than levels.
  for (Tensor before; !before.defined() || !before.equal(nodes);) {
    before = nodes;
    links = links.logical_and(nodes.unsqueeze(0)).logical_and(kept_rows(effects, nodes).unsqueeze(1));
    Tensor has_links_in = at::zeros_like(nodes);
    const Tensor row_has = links.any(1);
    for (size_t row = 0; row < effects.columns.size(); ++row) {
      if (effects.columns[row] >= 0)
        has_links_in.data_ptr<bool>()[effects.columns[row]] = row_has.const_data_ptr<bool>()[row];
    }
    nodes = nodes.logical_and(links.any(0).logical_or(stay))
                .logical_and(has_links_in.logical_or(needs_links_in.logical_not()));
  }
  return {as_flags(nodes), links};
}

PrunedEffects prune_effects(const EffectRows& effects, const std::vector<bool>& always, double node_threshold,
                            double edge_threshold) {
  const Tensor influence = find_influence(effects);
  const Tensor chosen = (influence >= find_threshold(influence, node_threshold)).logical_or(as_mask(always));
  PrunedEffects pruned{
      prune_links(effects, as_flags(chosen), always, edge_threshold), {}, accumulate_shares(influence)};
  pruned.influence.assign(influence.const_data_ptr<double>(),
                          influence.const_data_ptr<double>() + influence.numel());
  return pruned;
}

}  // namespace openwork
