// How much memory tracing takes, reckoned before it is taken.
#include <algorithm>

#include "analyze/trace/batches_apart.h"
#include "analyze/trace/trace_state.h"

namespace openwork {
namespace {

constexpr int64_t kFloat = 4;
constexpr int64_t kBatchBytes = int64_t{512} << 20;  // of all batches that run side by side
constexpr int64_t kMostTargets = 64;                 // in a batch on a CPU

int64_t count_columns(const ModelConfig& config, const Transcoders* transcoders, int64_t tokens,
                      int64_t active) {
  const int64_t by_token = config.layers * tokens;
  const int64_t biases = by_token + tokens, embeddings = tokens;
  return (transcoders != nullptr ? active + by_token : by_token) + embeddings + biases;
}

// One target's part of a batch: its direction at every token with what is made of it on the way, its effects.
int64_t target_bytes(const ModelConfig& config, int64_t tokens, int64_t columns) {
  const int64_t heads = 3 * config.head_size;
  return kFloat * (tokens * (4 * config.width + heads) + 2 * columns);
}

int64_t frozen_bytes(const ModelConfig& config, const Transcoders* transcoders, int64_t tokens) {
  const int64_t D = config.width, H = config.heads, d = config.head_size;
  const int64_t weights = D * d * (H + config.kv_heads);
  const int64_t patterns = 2 * H * tokens * tokens;
  const int64_t streams = tokens * (4 * D + H * d + (transcoders != nullptr ? D : 3 * config.inner));
  int64_t features = 0;
  if (transcoders != nullptr) {
    for (const LayerTranscoder& layer : transcoders->layers) features += 3 * tokens * layer.features();
  }
  const int64_t passing = 5 * H * tokens * tokens;  // a layer's attention, written out
  return kFloat * (config.layers * (weights + patterns + streams) + features + passing);
}

}  // namespace

int64_t trace_batch(const ModelConfig& config, int64_t tokens, int64_t columns, bool on_gpu) {
  if (on_gpu)
    return std::clamp<int64_t>(kBatchBytes / target_bytes(config, tokens, columns), 1, kTargetsInRound);
  const int64_t apart = batches_at_once(on_gpu);
  const int64_t fits = kBatchBytes / (apart * target_bytes(config, tokens, columns));
  return std::clamp<int64_t>(fits, 1, std::min(kMostTargets, std::max<int64_t>(kTargetsInRound / apart, 1)));
}

int64_t trace_bytes(const ModelConfig& config, const Transcoders* transcoders, int64_t tokens, int64_t active,
                    const TraceSettings& settings) {
  const int64_t columns = count_columns(config, transcoders, tokens, active);
  const int64_t nodes =
      std::min(settings.max_nodes, transcoders != nullptr ? active : config.layers * tokens);
  const int64_t rows = nodes + std::max<int64_t>(static_cast<int64_t>(settings.targets.size()), 1);
  const int64_t matrix = 2 * kFloat * rows * columns;  // and a copy of it while influence is found
  const int64_t kept = columns - (transcoders != nullptr ? active - nodes : 0);
  const int64_t pruning = rows * kept * (5 * kFloat + 8);  // scores, and sorting them
  const int64_t records = std::min(kShareRecordBytes, rows * kept * config.layers * config.heads *
                                                          static_cast<int64_t>(sizeof(HeadShare)));
  const int64_t sharing = kShareBatchBytes + kFloat * config.layers * rows * config.heads * config.head_size;
  return frozen_bytes(config, transcoders, tokens) + std::max({matrix, pruning, sharing + records}) +
         std::max(kBatchBytes, batches_at_once(false) * target_bytes(config, tokens, columns));
}

int64_t Tracer::bytes_needed(const ModelConfig& config, const Transcoders* transcoders, int64_t tokens,
                             const TraceSettings& settings) {
  int64_t active = 0;
  if (transcoders != nullptr) {
    for (const LayerTranscoder& layer : transcoders->layers)
      active += tokens * std::min(layer.features(), settings.active_features);
  }
  return trace_bytes(config, transcoders, tokens, active, settings);
}

}  // namespace openwork
