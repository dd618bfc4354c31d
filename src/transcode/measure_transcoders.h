// How well transcoders stand in for a model's MLPs, on held-out blocks: per layer, with everything else as
// the model has it, and the model's loss with all MLPs replaced at once, between the model's own and that
// with MLPs that write nothing, or always their mean.
#pragma once
#include <functional>
#include <vector>

#include "base/interval.h"
#include "text/documents.h"
#include "train/ranks.h"
#include "transcode/transcoder.h"

namespace openwork {

struct LayerQuality {
  double explained_variance = 0;              // 1 - squared error / squared distance to the mean output
  double explained_variance_after_first = 0;  // the same without the first token of every block
  double active_features = 0;                 // per token
  double dead_share = 0;                      // of features active at no token
  double always_on_share = 0;                 // of features active at nine tokens of ten or more
  double first_token_share = 0;               // of the squared error, that of the blocks' first tokens
  double active_replaced = 0;                 // active features per token with all layers replaced
};

struct ReplacementLosses {  // nats per token
  double model = 0, replaced = 0, mean_output = 0, zero_output = 0;
};

// Nats per token above the model's own with some of its layers replaced, one number per layer.
struct ReplacementCurves {
  std::vector<double> up_to;  // layers 0 to l
  std::vector<double> alone;  // layer l
  int64_t blocks = 0;         // that they were measured on, the first; 0: they were not
};

struct TranscoderQuality {
  std::vector<LayerQuality> layers;
  LayerQuality mean;  // over layers
  ReplacementLosses losses;
  double increase() const { return losses.replaced - losses.model; }
  Interval interval;  // 95 %, of the increase: documents resampled
  ReplacementCurves curves;
  int64_t tokens = 0, blocks = 0, context = 0;
};

// Transcoders on the model's device. Ranks share the blocks, and all of them have the result; `seed` draws
// the interval's documents; `advance` is told the number of blocks done.
TranscoderQuality measure_transcoders(const Transformer& model, const Transcoders& transcoders,
                                      const TokenBlocks& blocks, Ranks& ranks, uint64_t seed = 0,
                                      const std::function<void(int64_t)>& advance = nullptr);

// Where replacing begins to cost: twice as many passes as there are layers, over the first `count` blocks.
ReplacementCurves measure_curves(const Transformer& model, const Transcoders& transcoders,
                                 const TokenBlocks& blocks, int64_t count, Ranks& ranks,
                                 const std::function<void(int64_t)>& advance = nullptr);

// Blocks at a time whose logits and features stay near 400 MB on the CPU and 4 GB on a GPU.
int64_t choose_block_batch(const Transformer& model, const Transcoders& transcoders, int64_t context);

}  // namespace openwork
