#include "analyze/held_out.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <numbers>

#include "base/error.h"
#include "base/interval.h"
#include "model/kept_heads.h"
#include "train/gather_blocks.h"

namespace openwork {
namespace {

// What the passes leave, of this rank's blocks; zero elsewhere.
struct Measured {
  Tensor losses;      // [blocks * context] float32: nats of each prediction
  Tensor active;      // [layers, heads] float64: open gates; undefined for a dense model
  Tensor cut_active;  // [cuts] float64: likewise of all heads, in each block's first rows alone
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

// Causal pairs of a head in `rows` rows.
double count_pairs(int64_t rows) {
  return 0.5 * static_cast<double>(rows) * static_cast<double>(rows + 1);
}

// Where ranges of rows end inside a block: a call is cut there to count the gates above.
std::vector<int64_t> find_cuts(int64_t context) {
  std::vector<int64_t> cuts;
  for (const RowRange& range : kRowRanges) {
    if (range.last < context) cuts.push_back(range.last);
  }
  return cuts;
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

Tensor sum_gates(const std::vector<Tensor>& active) {
  return at::stack(active).to(at::kCPU, at::kDouble).sum(1);  // [layers, heads]
}

void summarise_losses(const Sums& sums, uint64_t seed, Evaluation& result) {
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
  const Interval interval = bootstrap_ratio(nats, counts, seed);
  result.low = interval.low, result.high = interval.high;
}

void summarise_heads(const Tensor& active, const ModelConfig& config, const TokenBlocks& blocks,
                     Evaluation& result) {
  const auto layers = static_cast<size_t>(config.layers), heads = static_cast<size_t>(config.heads);
  result.heads.assign(layers, std::vector<double>(heads, 0.0));
  for (size_t layer = 0; layer < layers; ++layer) {
    for (const int64_t head : kept_queries(config, static_cast<int64_t>(layer)))
      result.heads[layer][static_cast<size_t>(head)] = 1;
  }
  if (active.defined()) {
    const double pairs = static_cast<double>(blocks.count) * count_pairs(blocks.context);
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
      result.open_heads += share > kOpenShare;
      result.closed_heads += share == 0;
    }
  }
  result.kept_edges = kept / static_cast<double>(layers * heads);
}

// Gates open in a range are those of the call cut at its end less those of the call cut before it.
void summarise_rows(const Measured& measured, const ModelConfig& config, const TokenBlocks& blocks,
                    Evaluation& result) {
  const double texts = static_cast<double>(blocks.count * config.layers * config.heads);  // one for each head
  double open_before = 0;
  for (size_t n = 0; n < kRowRanges.size() && kRowRanges[n].first <= blocks.context; ++n) {
    const bool whole = kRowRanges[n].last >= blocks.context;
    const int64_t last = whole ? blocks.context : kRowRanges[n].last;
    if (!measured.active.defined()) {
      result.kept_edges_by_row[n] = result.kept_edges;
      continue;
    }
    const double open =
        (whole ? measured.active.sum() : measured.cut_active[static_cast<int64_t>(n)]).item<double>();
    result.kept_edges_by_row[n] =
        (open - open_before) / (texts * (count_pairs(last) - count_pairs(kRowRanges[n].first - 1)));
    open_before = open;
  }
}

// Batches n, n + ranks, ... of the blocks: the same batches whatever the number of ranks.
Measured measure_batches(const Transformer& model, const TokenBlocks& blocks, const Ranks& ranks,
                         const std::function<void(int64_t)>& advance) {
  const ModelConfig& config = model.config();
  const int64_t batch = choose_batch(model, blocks.context);
  const std::vector<int64_t> cuts = find_cuts(blocks.context);
  Measured result{at::zeros({blocks.count * blocks.context}, at::kFloat), {}, {}};
  if (config.gate != GateKind::kNone) {
    result.active = at::zeros({config.layers, config.heads}, at::kDouble);
    result.cut_active = at::zeros({static_cast<int64_t>(cuts.size())}, at::kDouble);
  }
  for (int64_t first = ranks.rank() * batch; first < blocks.count; first += ranks.count() * batch) {
    const int64_t count = std::min(batch, blocks.count - first);
    GateTotals gates;
    gates.cuts = cuts;
    ForwardOptions options;
    options.gate_totals = &gates;
    const Tensor logits = model.forward(gather_blocks(blocks, first, count, 0).to(model.device()), options);
    const Tensor targets = gather_blocks(blocks, first, count, 1).to(model.device());
    const Tensor losses = at::cross_entropy_loss(logits.flatten(0, 1).to(at::kFloat), targets.flatten(), {},
                                                 at::Reduction::None);
    result.losses.narrow(0, first * blocks.context, count * blocks.context).copy_(losses);
    if (result.active.defined()) {
      result.active += sum_gates(gates.active);
      for (size_t n = 0; n < cuts.size(); ++n)
        result.cut_active[static_cast<int64_t>(n)] += sum_gates(gates.cut_active[n]).sum();
    }
    if (advance) advance(std::min(count * ranks.count(), blocks.count - first));
  }
  return result;
}

// Every rank measures all prompts: they are few and short.
void measure_prompts(const Transformer& model, const std::vector<std::vector<int32_t>>& prompts,
                     Evaluation& result) {
  if (prompts.empty()) return;
  const ModelConfig& config = model.config();
  const double heads = static_cast<double>(config.layers * config.heads);
  double kept = 0, open = 0;
  for (const std::vector<int32_t>& prompt : prompts) {
    GateTotals gates;
    ForwardOptions options;
    options.gate_totals = &gates;
    options.last_only = true;
    if (config.gate != GateKind::kNone)
      model.forward(at::tensor(prompt, at::kInt).to(at::kLong).unsqueeze(0).to(model.device()), options);
    if (gates.active.empty()) {
      const auto here = static_cast<double>(count_kept_heads(config));
      kept += here / heads, open += here;
      continue;
    }
    const Tensor active = sum_gates(gates.active);
    kept += active.sum().item<double>() / (heads * count_pairs(static_cast<int64_t>(prompt.size())));
    open += active.gt(0).sum().item<double>();
  }
  result.prompt_kept_edges = kept / static_cast<double>(prompts.size());
  result.prompt_open_heads = open / static_cast<double>(prompts.size());
}

}  // namespace

Evaluation evaluate_held_out(const Transformer& model, const TokenBlocks& blocks,
                             const HeldOutOptions& options) {
  const at::NoGradGuard no_grad;
  const auto start = std::chrono::steady_clock::now();
  Ranks alone;
  Ranks& ranks = options.ranks ? *options.ranks : alone;
  const Measured measured = measure_batches(model, blocks, ranks, options.advance);
  ranks.sum(measured.losses);  // with zeros: exact
  if (measured.active.defined()) ranks.sum(measured.active);
  if (measured.active.defined() && measured.cut_active.numel() > 0) ranks.sum(measured.cut_active);
  Evaluation result;
  result.blocks = blocks.count, result.context = blocks.context;
  summarise_losses(sum_by_document(measured.losses, blocks), options.seed, result);
  summarise_heads(measured.active, model.config(), blocks, result);
  summarise_rows(measured, model.config(), blocks, result);
  measure_prompts(model, options.prompts, result);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

TokenBlocks read_held_out(const std::vector<std::string>& files, const Tokenizer* tokenizer,
                          int32_t end_of_text, const ModelConfig& config, const std::string& name,
                          int64_t context, int64_t blocks) {
  if (context == 0) context = std::min<int64_t>(config.context, 1024);
  if (context > config.context) {
    fail_input(fmt::format("--context {}", context), name,
               fmt::format("the model's context is {}", config.context));
  }
  TokenBlocks read = read_blocks({files.begin(), files.end()}, tokenizer, end_of_text, context, blocks);
  for (const int32_t token : read.tokens) {
    if (token >= 0 && token < config.vocabulary) continue;
    fail_input(fmt::format("token id {}", token), name,
               fmt::format("the {} and the model do not belong together", tokenizer ? "tokenizer" : "shard"));
  }
  return read;
}

}  // namespace openwork
