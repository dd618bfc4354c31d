// A run's matrices on their way to a compact difference (model/delta.h): what a model computes with is rounded as
// the file will have it, while the masters go on moving. Rows are rounded one by one, so that matrices with as many
// columns and bits are rounded together: a step has time for a few large operations, not for dozens on each matrix.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "model/delta.h"

namespace openwork {

class WeightRounding {
 public:
  struct Matrix {
    std::string name;
    Tensor master;  // [rows, columns] float32
    Tensor leaf;    // what the model computes with
    Tensor origin;  // what the change is counted from; copied
  };
  WeightRounding(const DeltaPlan& plan, const std::vector<Matrix>& matrices);

  // Leaves `share` of the way (0 to 1) from the masters to the plan's form of their change since the origin; what
  // the plan does not name is rounded to the origin itself.
  void write_leaves(double share) const;

  const NamedTensors& origin() const { return origin_; }

 private:
  struct Group {
    int bits = 0;  // 0: not in the plan
    std::vector<Tensor> masters, leaves;
    Tensor origin;  // of all of them, row under row
  };
  std::vector<Group> groups_;
  NamedTensors origin_;  // by name, in the matrices' order: views of the groups' rows
};

}  // namespace openwork
