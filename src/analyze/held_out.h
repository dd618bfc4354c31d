// Held-out loss of a model on blocks of text, and which of its attention edges were kept there (METHOD 2).
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "base/interval.h"
#include "model/transformer.h"
#include "text/documents.h"
#include "train/ranks.h"

namespace openwork {

struct HeldOutResult {
  double nats_per_token = 0;
  Interval interval;           // 95 %, documents resampled
  double bits_per_byte = 0;
  double kept_edges = 1;       // share of all causal pairs of all heads; 1 for a dense model
  int64_t open_heads = 0;      // keep more than 0.01 % of their pairs
  int64_t closed_heads = 0;    // keep none
  std::vector<std::vector<double>> heads;  // kept share [layer][head]
  int64_t tokens = 0;          // predicted
  int64_t documents = 0, blocks = 0;
  double seconds = 0;
};

inline constexpr double kOpenHeadShare = 1e-4;

// `seed` draws the bootstrap; `advance` is told the number of blocks done after each batch. Ranks share the
// batches, and all of them have the result that one process alone gives.
HeldOutResult evaluate_held_out(const Transformer& model, const TokenBlocks& blocks, uint64_t seed,
                                const std::function<void(int64_t)>& advance = nullptr, Ranks* ranks = nullptr);

}  // namespace openwork
