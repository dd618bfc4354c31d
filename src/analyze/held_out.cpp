#include "analyze/held_out.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <numbers>

namespace openwork {
namespace {

// Sums that grow batch by batch.
struct Sums {
  std::map<int32_t, std::pair<double, double>> documents;  // document -> (nats, predicted tokens)
  double bytes = 0;
  std::vector<Tensor> active;  // per layer [H], double
};

int64_t choose_batch(const Transformer& model, int64_t context) {
  // Logits are the largest tensor: hold them near 400 MB on the CPU and 4 GB on a GPU.
  const double budget = model.device().is_cpu() ? 1e8 : 1e9;
  const double per_block = static_cast<double>(context * model.config().vocabulary);
  return std::clamp<int64_t>(static_cast<int64_t>(budget / per_block), 1, 64);
}

// Tokens of `count` blocks from `first` on, shifted by `shift`: [count, context].
Tensor gather_blocks(const TokenBlocks& blocks, int64_t first, int64_t count, int64_t shift) {
  const int32_t* start = blocks.tokens.data() + first * blocks.context + shift;
  return at::from_blob(const_cast<int32_t*>(start), {count, blocks.context}, at::TensorOptions().dtype(at::kInt))
      .to(at::kLong);
}

void add_losses(const Tensor& losses, const TokenBlocks& blocks, int64_t first, Sums& sums) {
  const Tensor flat = losses.reshape({-1}).to(at::kCPU, at::kDouble).contiguous();
  const double* nats = flat.data_ptr<double>();
  for (int64_t n = 0; n < flat.numel(); ++n) {
    const auto target = static_cast<size_t>(first * blocks.context + n + 1);
    auto& [total, count] = sums.documents[blocks.document[target]];
    total += nats[n];
    count += 1;
    sums.bytes += blocks.bytes[target];
  }
}

void add_gates(const GateTotals& totals, Sums& sums) {
  for (size_t layer = 0; layer < totals.active.size(); ++layer) {
    const Tensor kept = totals.active[layer].to(at::kCPU, at::kDouble).sum(0);  // [H]
    if (sums.active.size() <= layer) {
      sums.active.push_back(kept);
    } else {
      sums.active[layer] += kept;
    }
  }
}

void summarise_losses(const Sums& sums, uint64_t seed, HeldOutResult& result) {
  std::vector<double> nats, counts;
  for (const auto& [document, sum] : sums.documents) {
    nats.push_back(sum.first);
    counts.push_back(sum.second);
  }
  double total = 0, tokens = 0;
  for (size_t n = 0; n < nats.size(); ++n) total += nats[n], tokens += counts[n];
  result.documents = static_cast<int64_t>(nats.size());
  result.tokens = static_cast<int64_t>(tokens);
  result.nats_per_token = total / tokens;
  result.bits_per_byte = sums.bytes > 0 ? total / (sums.bytes * std::numbers::ln2) : 0;
  result.interval = bootstrap_ratio(nats, counts, seed);
}

void summarise_gates(const Sums& sums, const ModelConfig& config, const TokenBlocks& blocks, HeldOutResult& result) {
  const auto layers = static_cast<size_t>(config.layers), heads = static_cast<size_t>(config.heads);
  result.heads.assign(layers, std::vector<double>(heads, 1.0));
  if (!sums.active.empty()) {
    const double pairs = static_cast<double>(blocks.count) * static_cast<double>(blocks.context * (blocks.context + 1) / 2);
    for (size_t layer = 0; layer < layers; ++layer) {
      for (size_t head = 0; head < heads; ++head) {
        result.heads[layer][head] = sums.active[layer].data_ptr<double>()[head] / pairs;
      }
    }
  }
  double kept = 0;
  for (const auto& layer : result.heads) {
    for (const double share : layer) {
      kept += share;
      result.open_heads += share > kOpenHeadShare;
      result.closed_heads += share == 0;
    }
  }
  result.kept_edges = kept / static_cast<double>(layers * heads);
}

}  // namespace

HeldOutResult evaluate_held_out(const Transformer& model, const TokenBlocks& blocks, uint64_t seed,
                                const std::function<void(int64_t)>& advance) {
  const at::NoGradGuard no_grad;
  const auto start = std::chrono::steady_clock::now();
  const int64_t batch = choose_batch(model, blocks.context);
  Sums sums;
  for (int64_t first = 0; first < blocks.count; first += batch) {
    const int64_t count = std::min(batch, blocks.count - first);
    GateTotals gates;
    ForwardOptions options;
    options.gate_totals = &gates;
    const Tensor logits = model.forward(gather_blocks(blocks, first, count, 0).to(model.device()), options);
    const Tensor targets = gather_blocks(blocks, first, count, 1).to(model.device());
    const Tensor losses = at::cross_entropy_loss(logits.flatten(0, 1).to(at::kFloat), targets.flatten(), {}, at::Reduction::None);
    add_losses(losses, blocks, first, sums);
    add_gates(gates, sums);
    if (advance) advance(count);
  }
  HeldOutResult result;
  result.blocks = blocks.count;
  summarise_losses(sums, seed, result);
  summarise_gates(sums, model.config(), blocks, result);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace openwork
