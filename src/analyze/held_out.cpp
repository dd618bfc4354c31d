#include "analyze/held_out.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <numbers>

namespace openwork {
namespace {

// What the passes leave, of this rank's blocks; zero elsewhere.
struct Measured {
  Tensor losses;  // [blocks * context] float32: nats of each prediction
  Tensor active;  // [layers, heads] float64: open gates; undefined for a dense model
};

struct Sums {
  std::map<int32_t, std::pair<double, double>> documents;  // document -> (nats, predicted tokens)
  double bytes = 0;
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

Sums sum_by_document(const Tensor& losses, const TokenBlocks& blocks) {
  Sums sums;
  const float* nats = losses.data_ptr<float>();
  for (int64_t n = 0; n < losses.numel(); ++n) {
    const auto target = static_cast<size_t>(n + 1);
    auto& [total, count] = sums.documents[blocks.document[target]];
    total += nats[n];
    count += 1;
    sums.bytes += blocks.bytes[target];
  }
  return sums;
}

Tensor sum_gates(const GateTotals& totals) {
  return at::stack(totals.active).to(at::kCPU, at::kDouble).sum(1);  // [layers, heads]
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

void summarise_gates(const Tensor& active, const ModelConfig& config, const TokenBlocks& blocks, HeldOutResult& result) {
  const auto layers = static_cast<size_t>(config.layers), heads = static_cast<size_t>(config.heads);
  result.heads.assign(layers, std::vector<double>(heads, 1.0));
  if (active.defined()) {
    const double pairs = static_cast<double>(blocks.count) * static_cast<double>(blocks.context * (blocks.context + 1) / 2);
    for (size_t layer = 0; layer < layers; ++layer) {
      for (size_t head = 0; head < heads; ++head) {
        result.heads[layer][head] = active.data_ptr<double>()[layer * heads + head] / pairs;
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

// Batches n, n + ranks, ... of the blocks: the same batches whatever the number of ranks.
Measured measure_batches(const Transformer& model, const TokenBlocks& blocks, const Ranks& ranks,
                         const std::function<void(int64_t)>& advance) {
  const at::NoGradGuard no_grad;
  const ModelConfig& config = model.config();
  const int64_t batch = choose_batch(model, blocks.context);
  Measured result{at::zeros({blocks.count * blocks.context}, at::kFloat), {}};
  if (config.gate != GateKind::kNone) result.active = at::zeros({config.layers, config.heads}, at::kDouble);
  for (int64_t first = ranks.rank() * batch; first < blocks.count; first += ranks.count() * batch) {
    const int64_t count = std::min(batch, blocks.count - first);
    GateTotals gates;
    ForwardOptions options;
    options.gate_totals = &gates;
    const Tensor logits = model.forward(gather_blocks(blocks, first, count, 0).to(model.device()), options);
    const Tensor targets = gather_blocks(blocks, first, count, 1).to(model.device());
    const Tensor losses = at::cross_entropy_loss(logits.flatten(0, 1).to(at::kFloat), targets.flatten(), {}, at::Reduction::None);
    result.losses.narrow(0, first * blocks.context, count * blocks.context).copy_(losses);
    if (result.active.defined()) result.active += sum_gates(gates);
    if (advance) advance(std::min(count * ranks.count(), blocks.count - first));
  }
  return result;
}

}  // namespace

HeldOutResult evaluate_held_out(const Transformer& model, const TokenBlocks& blocks, uint64_t seed,
                                const std::function<void(int64_t)>& advance, Ranks* shared) {
  const auto start = std::chrono::steady_clock::now();
  Ranks alone;
  Ranks& ranks = shared ? *shared : alone;
  const Measured measured = measure_batches(model, blocks, ranks, advance);
  ranks.sum(measured.losses);  // with zeros: exact
  if (measured.active.defined()) ranks.sum(measured.active);
  HeldOutResult result;
  result.blocks = blocks.count;
  summarise_losses(sum_by_document(measured.losses, blocks), seed, result);
  summarise_gates(measured.active, model.config(), blocks, result);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace openwork
