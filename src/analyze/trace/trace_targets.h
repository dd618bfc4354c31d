// What targets read, as directions into the residual stream with norm scales held fixed:
//   a feature   its encoder's row, at its layer and token
//   a logit     the token's unembedding row, at the last token
//   an MLP      (without transcoders) its own output, in the direction r in which that output counts for the
//               first target's logit, pulled back through the MLP with its slope held fixed: act(pre) / pre,
//               or act(gate) of a gated MLP. r is the gradient of the logit through the whole model so
//               linearised.
// An MLP's value is r . output, so values and effects are shares of the first target's logit.
#pragma once
#include <vector>

#include "analyze/trace/linear_pass.h"

namespace openwork {

class TargetReader {
 public:
  // `transcoders` may be null. All must outlive this.
  TargetReader(const LinearPass& pass, const TraceSources& sources, const Transcoders* transcoders,
               int64_t first_target);

  Targets logits(const std::vector<int64_t>& tokens) const;
  Targets nodes(const std::vector<int64_t>& columns) const;  // features or MLPs

 private:
  // Directions, constants and values of the nodes of one layer, at `positions` [n].
  struct Reading {
    Tensor directions, constants, values;
  };
  Reading read_features(int64_t layer, const Tensor& features, const Tensor& positions) const;
  Reading read_mlp(int64_t layer, const Tensor& positions) const;

  const FrozenRun& run_;
  const TraceSources& sources_;
  const Transcoders* transcoders_;
  std::vector<Tensor> shares_;  // r per layer [T, D], without transcoders
};

}  // namespace openwork
