#include "analyze/head_shares.h"

#include <ATen/ATen.h>

#include <algorithm>

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

}  // namespace

void share_by_heads(const ShareRequest& request, const ShareVisitor& visit, const MoveVisitor& see_moves) {
  const FrozenRun& run = request.pass.run();
  const int64_t H = run.config().heads, d = run.config().head_size, rows = run.config().layers * H;
  const std::vector<TokenBlock> blocks = find_blocks(request.targets);
  const std::vector<Tensor> readings = read_heads(request.pass, request.targets);
  const int64_t each = rows * request.targets.count() * 4;  // bytes
  const int64_t batch = std::clamp<int64_t>(request.bytes / std::max<int64_t>(each, 1), 1, kMostSources);
  for (size_t from = 0; from < request.columns.size(); from += static_cast<size_t>(batch)) {
    const size_t to = std::min(from + static_cast<size_t>(batch), request.columns.size());
    const std::vector<int64_t> columns(request.columns.begin() + static_cast<std::ptrdiff_t>(from),
                                       request.columns.begin() + static_cast<std::ptrdiff_t>(to));
    const auto n = static_cast<int64_t>(columns.size());
    const int64_t first = earliest_token(request.sources, columns), last = request.targets.last_position();
    Tensor shares = at::zeros({rows, request.targets.count(), n}, run.embedding.options());
    const auto share_head = [&](int64_t layer, int64_t head, const Tensor& values, const Tensor& z) {
      const Tensor stays = run.layer(layer).mix[head].diagonal().narrow(0, first, z.size(0)).unsqueeze(1);
      const Tensor moved = (z - stays * values).view({z.size(0), n, d});
      if (see_moves) see_moves(layer, head, first, moved);
      const Tensor reading = readings[static_cast<size_t>(layer)].narrow(1, head * d, d);
      for (const TokenBlock& block : blocks) {
        if (block.position <= first || block.last_layer < layer) continue;
        Tensor out = shares[layer * H + head].narrow(0, block.from, block.count);
        at::mm_out(out, reading.narrow(0, block.from, block.count), moved[block.position - first].t());
      }
    };
    if (last > first) {
      request.pass.carry_forward({.sources = request.sources,
                                  .columns = columns,
                                  .first = first,
                                  .last = last,
                                  .end = std::min(request.targets.last_layer() + 1, run.config().layers),
                                  .head = share_head});
    }
    visit(from, shares);
  }
}

}  // namespace openwork
