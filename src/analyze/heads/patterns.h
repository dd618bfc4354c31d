// Every head's attention pattern on prompts of one length (dense: P; gated: P times z), layer by layer: a
// layer's patterns are made, handed out head by head and dropped, so that a model of 1,024 heads needs the
// memory of one layer. Over several prompts the pattern is their mean.
//   visit_patterns(model, ids, [&](const PatternView& pattern) { ... pattern.values ... });
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/head_place.h"
#include "model/transformer.h"

namespace openwork {

struct PatternView {
  HeadPlace place;
  int64_t tokens = 0;
  std::span<const float> values;  // [tokens * tokens], row = query; 0 above the diagonal

  float at(int64_t query, int64_t key) const { return values[static_cast<size_t>(query * tokens + key)]; }
};

// What an entry is: A[i,j] itself, or A[i,j] |v_j W_O|, which is how much the head moves from j to i.
enum class PatternWeights { kAttention, kValue };

// `visit` sees every head once, the heads of a layer on several threads at a time, layers in order.
// ids [B, T].
void visit_patterns(const Transformer& model, const Tensor& ids,
                    const std::function<void(const PatternView&)>& visit,
                    PatternWeights weights = PatternWeights::kAttention);

struct PatternCell {
  int64_t query = 0, key = 0;
  double value = 0;
};

// What choosing and ordering heads needs to know of a pattern.
struct PatternSummary {
  double mass = 0;                     // mean row sum over rows i >= 1 (of the only row, where there is one)
  double peak = 0;                     // mean over those rows of the largest entry behind the first key
  std::vector<PatternCell> strongest;  // moves between tokens, 1 <= key < query: the largest, descending
  bool blank() const;                  // mass below 0.01 (docs/method.md, 3)
};

PatternSummary summarise_pattern(const PatternView& pattern, size_t strongest);

// The causal entries alone, row by row: T (T + 1) / 2 numbers.
std::vector<float> causal_values(const PatternView& pattern);

}  // namespace openwork
