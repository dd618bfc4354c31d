#include "train/weight_rounding.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <map>
#include <utility>

namespace openwork {
namespace {

// Numbers rounded together at most, unless one matrix has more: a dozen tensors of that many come and go.
constexpr int64_t kMostNumbers = int64_t{1} << 24;

int bits_of(const DeltaPlan& plan, const std::string& name) {
  const auto it = plan.find(name);
  return it == plan.end() ? 0 : it->second;
}

}  // namespace

WeightRounding::WeightRounding(const DeltaPlan& plan, const std::vector<Matrix>& matrices) {
  struct Place {
    size_t group = 0;
    int64_t row = 0;
  };
  std::vector<Place> places;
  std::vector<std::vector<Tensor>> origins;        // of each group
  std::vector<int64_t> rows;                       // of each group
  std::map<std::pair<int64_t, int>, size_t> open;  // groups that take more, by columns and bits
  for (const Matrix& matrix : matrices) {
    const int64_t own_rows = matrix.master.size(0), columns = matrix.master.size(1);
    const std::pair kind(columns, bits_of(plan, matrix.name));
    const auto it = open.find(kind);
    if (it == open.end() || (rows[it->second] + own_rows) * columns > kMostNumbers) {
      open[kind] = groups_.size();
      groups_.push_back({kind.second, {}, {}, {}});
      origins.emplace_back();
      rows.push_back(0);
    }
    const size_t number = open[kind];
    places.push_back({number, rows[number]});
    rows[number] += own_rows;
    groups_[number].masters.push_back(matrix.master);
    groups_[number].leaves.push_back(matrix.leaf);
    origins[number].push_back(matrix.origin.to(matrix.master.options()));
  }
  for (size_t n = 0; n < groups_.size(); ++n) groups_[n].origin = at::cat(std::exchange(origins[n], {}));
  for (size_t n = 0; n < matrices.size(); ++n)
    origin_.emplace_back(matrices[n].name, groups_[places[n].group].origin.narrow(
                                               0, places[n].row, matrices[n].master.size(0)));
}

void WeightRounding::write_leaves(double share) const {
  const at::NoGradGuard no_grad;
  for (const Group& group : groups_) {
    const Tensor whole = group.masters.size() == 1 ? group.masters.front() : at::cat(group.masters);
    Tensor rounded = group.origin;
    if (group.bits > 0)
      rounded = rounded + expand_change(round_change(whole - rounded, group.bits), group.bits);
    if (share < 1) rounded = at::lerp(whole, rounded, share);
    int64_t row = 0;
    for (const Tensor& leaf : group.leaves) {
      leaf.copy_(rounded.narrow(0, row, leaf.size(0)));
      row += leaf.size(0);
    }
  }
}

}  // namespace openwork
