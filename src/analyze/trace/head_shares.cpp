#include "analyze/trace/head_shares.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <mutex>

#include "analyze/trace/batches_apart.h"

namespace openwork {
namespace {

constexpr int64_t kMostSources = 128;  // in a batch

// Targets at one token: rows [from, from + count).
struct TokenBlock {
  int64_t position = 0, from = 0, count = 0, last_layer = 0;
};

std::vector<TokenBlock> find_blocks(const Targets& targets) {
  std::vector<TokenBlock> blocks;
  for (int64_t n = 0; n < targets.count(); ++n) {
    const auto at = static_cast<size_t>(n);
    if (blocks.empty() || blocks.back().position != targets.positions[at])
      blocks.push_back({targets.positions[at], n});
    ++blocks.back().count;
    blocks.back().last_layer = std::max(blocks.back().last_layer, targets.layers[at]);
  }
  return blocks;
}

// The targets' directions as each layer's heads write into them: per layer [targets, H d]; undefined above
// the last target.
std::vector<Tensor> read_heads(const LinearPass& pass, const Targets& targets) {
  std::vector<Tensor> readings(pass.run().layers.size());
  pass.carry_back_staying(targets, [&](int64_t layer, const Tensor& g) {
    readings[static_cast<size_t>(layer)] = at::mm(g, pass.run().layer(layer).output);
  });
  return readings;
}

int64_t earliest_token(const TraceSources& sources, const std::vector<int64_t>& columns) {
  int64_t first = sources.node(columns.front()).position;
  for (const int64_t column : columns) first = std::min(first, sources.node(column).position);
  return first;
}

class Sharer {
 public:
  Sharer(const ShareRequest& request, const MoveVisitor& see_moves)
      : request_(request),
        see_moves_(see_moves),
        run_(request.pass.run()),
        blocks_(find_blocks(request.targets)),
        readings_(read_heads(request.pass, request.targets)) {}

  // The shares of a batch of sources: [layers * heads, targets, n].
  Tensor share(const std::vector<int64_t>& columns) {
    const ModelConfig& config = run_.config();
    const auto n = static_cast<int64_t>(columns.size());
    const int64_t first = earliest_token(request_.sources, columns), last = request_.targets.last_position();
    Tensor shares =
        at::zeros({config.layers * config.heads, request_.targets.count(), n}, run_.embedding.options());
    if (last <= first) return shares;
    request_.pass.carry_forward(
        {.sources = request_.sources,
         .columns = columns,
         .first = first,
         .last = last,
         .end = std::min(request_.targets.last_layer() + 1, config.layers),
         .head = [&](int64_t layer, int64_t head, const Tensor& values, const Tensor& z) {
           const Tensor stays =
               run_.layer(layer).mix[head].diagonal().narrow(0, first, z.size(0)).unsqueeze(1);
           const Tensor moved = (z - stays * values).view({z.size(0), n, config.head_size});
           if (see_moves_) {
             const std::lock_guard lock(seeing_);
             see_moves_(layer, head, first, moved);
           }
           share_head(layer, head, first, moved, shares[layer * config.heads + head]);
         }});
    return shares;
  }

 private:
  // moved [P, n, d], out [targets, n].
  void share_head(int64_t layer, int64_t head, int64_t first, const Tensor& moved, const Tensor& out) const {
    const int64_t d = run_.config().head_size;
    const Tensor reading = readings_[static_cast<size_t>(layer)].narrow(1, head * d, d);
    for (const TokenBlock& block : blocks_) {
      if (block.position <= first || block.last_layer < layer) continue;
      Tensor part = out.narrow(0, block.from, block.count);
      at::mm_out(part, reading.narrow(0, block.from, block.count), moved[block.position - first].t());
    }
  }

  const ShareRequest& request_;
  const MoveVisitor& see_moves_;
  const FrozenRun& run_;
  std::vector<TokenBlock> blocks_;
  std::vector<Tensor> readings_;
  std::mutex seeing_;
};

}  // namespace

void share_by_heads(const ShareRequest& request, const ShareVisitor& visit, const MoveVisitor& see_moves) {
  const FrozenRun& run = request.pass.run();
  const bool on_gpu = run.embedding.is_cuda();
  const int64_t each = run.config().layers * run.config().heads * request.targets.count() * 4;  // bytes
  const int64_t fit = request.bytes / (batches_at_once(on_gpu) * std::max<int64_t>(each, 1));
  const auto size = static_cast<size_t>(std::clamp<int64_t>(fit, 1, kMostSources));
  Sharer sharer(request, see_moves);
  std::mutex visiting;
  run_batches((request.columns.size() + size - 1) / size, on_gpu, [&](size_t batch) {
    const size_t from = batch * size, to = std::min(from + size, request.columns.size());
    const std::vector<int64_t> columns(request.columns.begin() + static_cast<std::ptrdiff_t>(from),
                                       request.columns.begin() + static_cast<std::ptrdiff_t>(to));
    const Tensor shares = sharer.share(columns);
    const std::lock_guard lock(visiting);
    visit(from, shares);
  });
}

}  // namespace openwork
