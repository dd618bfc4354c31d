// The frozen model as a linear map. Directions go backward through it, writings forward, through residual
// stream and attention (and a transcoder's skip); MLPs are cut: what they write is a source's, what they read
// a target's. Streams lie token first, [P, n, D], so that every head's mixing of tokens is one matrix
// product.
#pragma once
#include <functional>
#include <vector>

#include "analyze/trace/trace_sources.h"

namespace openwork {

// What effects are measured on: each target reads the stream in one direction at one token.
struct Targets {
  std::vector<int64_t> layers;  // whose MLP, or whose transcoder, reads; the number of layers: logits
  std::vector<int64_t> positions;
  Tensor directions;           // [n, D]
  Tensor constants;            // [n]: what the target gets beside what it reads
  std::vector<double> values;  // what all effects on it must sum to

  int64_t count() const { return static_cast<int64_t>(layers.size()); }
  int64_t first_position() const;
  int64_t last_position() const;
  int64_t last_layer() const;
};
Targets pick_targets(const Targets& targets, const std::vector<int64_t>& rows);

class LinearPass {
 public:
  // `transcoders` may be null; they matter for skips alone. All must outlive this.
  LinearPass(const FrozenRun& run, const Transcoders* transcoders);

  // Takes directions g [P, n, D] at a place of the stream (kStart comes with layer -1).
  using Visitor = std::function<void(StreamPoint point, int64_t layer, const Tensor& g)>;
  // More that a direction into a layer's MLP output pulls at what the MLP reads: [P, n, D] -> [P, n, D].
  using Pull = std::function<Tensor(int64_t layer, const Tensor& g)>;

  // Carries the targets' directions down to the embedding. Targets come in order of their layers, the highest
  // first: n counts those that have been met so far. P: tokens up to the last target's. Every place that a
  // direction reaches is visited, from above. `through`: for those who do not cut MLPs.
  void carry_back(const Targets& targets, const Visitor& visit, const Pull& through = nullptr) const;

  // The same by steps that stay at the target's token alone: visit(layer, g [n, D]) behind each attention.
  void carry_back_staying(const Targets& targets,
                          const std::function<void(int64_t layer, const Tensor& g)>& visit) const;

  // Carries what the sources in `columns` write up to the layers below `end`: visit(layer, x [P, n, D])
  // before each layer from the first that is not 0 everywhere, `end` itself included. P: tokens [first,
  // last]; no source may write at an earlier one, and what later ones make of it is left out. `head` sees
  // each open head's values [P, n d] and what it gathers of them, [P, n d].
  struct Forward {
    const TraceSources& sources;
    const std::vector<int64_t>& columns;
    int64_t first = 0, last = 0, end = 0;
    std::function<void(int64_t layer, const Tensor& x)> visit = nullptr;
    std::function<void(int64_t layer, int64_t head, const Tensor& values, const Tensor& z)> head = nullptr;
  };
  void carry_forward(const Forward& forward) const;

  const FrozenRun& run() const { return run_; }

 private:
  Tensor pull_attention(int64_t layer, const Tensor& g) const;
  Tensor pull_skip(int64_t layer, const Tensor& g, const Tensor& positions) const;
  bool has_skip(int64_t layer) const {
    return !skips_.empty() && skips_[static_cast<size_t>(layer)].defined();
  }
  Tensor push_attention(int64_t layer, const Tensor& x, const Forward& forward) const;

  const FrozenRun& run_;
  std::vector<Tensor> skips_;  // per layer [D, D], the norm folded in; undefined where there is none
  bool normed_ = false;        // skips read the normed stream
};

// Every target's direct effects from every source: [n, columns]. `through` as carry_back takes it: effects are then by
// ways through MLPs too.
Tensor find_effects(const LinearPass& pass, const TraceSources& sources, const Targets& targets,
                    const LinearPass::Pull& through = nullptr);

}  // namespace openwork
