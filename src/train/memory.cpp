#include "train/memory.h"

#include <ATen/ATen.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <fstream>

#include "model/architecture.h"
#include "ops/arguments.h"
#include "ops/prediction_loss.h"
#include "train/in_flight.h"

namespace openwork {
namespace {

constexpr int64_t kWide = sizeof(float);

int64_t parameter_count(const ModelConfig& config) {
  int64_t count = 0;
  for (const ParameterSpec& spec :
       list_parameters(architecture_named(config.architecture, "model"), config)) {
    int64_t size = 1;
    for (const int64_t side : spec.shape) size *= side;
    count += size;
  }
  return count;
}

// What autograd keeps of a token in one layer: the block's input, two normalised ones, what attention gives,
// q, k, v and the MLP's inner numbers (gelu's in and out; with a gate one more); where kernels want them also the
// slopes of gates (docs/operator.md). It is what the H200's peaks come to (docs/scale.md).
int64_t kept_of_layer(const ModelConfig& config, const WeightOptions& weights) {
  const int64_t heads = config.heads * config.head_size, kv = config.kv_heads * config.head_size;
  const bool slopes = wants_slopes(weights.device.type(), config.gate, weights.dtype, config.head_size);
  const int64_t slope_rows = slopes ? config.heads * slope_width(weights.dtype, config.head_size) : 0;
  return 4 * config.width + heads + slope_rows + 2 * kv + (config.gated_mlp ? 3 : 2) * config.inner;
}

bool distils(const ModelConfig& config, const LoopOptions& loop) {
  return loop.loss.distill > 0 && config.gate != GateKind::kNone;
}

int64_t activation_bytes(const ModelConfig& config, const WeightOptions& weights, const LoopOptions& loop,
                         int64_t context) {
  int64_t rows = loop.batch / loop.ranks->count() / loop.accumulate;
  if (!loop.lengths.empty()) rows = std::max<int64_t>(1, rows / static_cast<int64_t>(loop.lengths.size()));
  const int64_t of_layer = kept_of_layer(config, weights);
  const int64_t kept = weights.recompute ? config.layers * config.width + of_layer : config.layers * of_layer;
  const auto narrow = static_cast<int64_t>(c10::elementSize(weights.dtype));
  const int64_t tokens = rows * context, matrix = config.vocabulary * config.width;
  const int64_t taught = distils(config, loop) ? tokens / loop.loss.distill_every : 0;
  const int64_t in_layers = tokens * kept * narrow, at_the_end = tokens * config.width * narrow;
  // The unembedding's gradient is added up in float32 and turned into what the weights are in.
  const int64_t passing = weights.lora ? 0 : matrix * (kWide + (narrow == kWide ? 0 : narrow));
  const int64_t logits = prediction_scratch(tokens, taught, config.vocabulary, weights.dtype, weights.device);
  // The most is held with the last chunk of logits, the last hidden state and its gradient beside it; or, of few
  // tokens and many weights, at the end of the way back, where a tied matrix has the embedding's gradient too.
  const int64_t last = weights.lora ? 0 : (config.tied ? 2 : 1) * matrix * narrow;
  return std::max(in_layers + 2 * at_the_end + passing + logits, last);
}

int64_t read_status(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key + ":")) return std::stoll(line.substr(key.size() + 1)) * 1024;
  }
  return 0;
}

}  // namespace

int64_t MemoryNeed::total() const {
  return program + weights + std::max(gradients + moments + exchange + activations, closing);
}

nlohmann::json to_json(const MemoryNeed& need) {
  return {{"program", need.program}, {"weights", need.weights},   {"gradients", need.gradients},
          {"moments", need.moments}, {"exchange", need.exchange}, {"activations", need.activations},
          {"closing", need.closing}, {"total", need.total()}};
}

std::string describe(const MemoryNeed& need) {
  const auto gigabytes = [](int64_t bytes) {
    return fmt::format("{:.2f}", static_cast<double>(bytes) / 1e9);
  };
  return fmt::format("{} GB (state {}, activations {})", gigabytes(need.total()),
                     gigabytes(need.weights + need.gradients + need.moments), gigabytes(need.activations));
}

MemoryNeed predict_memory(const ModelConfig& config, const WeightOptions& weights, const LoopOptions& loop,
                          int64_t context) {
  const WeightPlan plan = plan_weights(config, weights);
  const ShardPlan& shards = plan.shards;
  const auto narrow = static_cast<int64_t>(c10::elementSize(weights.dtype));
  const int64_t whole = shards.padded() + plan.gates(), share = shards.share() + plan.gates(),
                all = parameter_count(config);
  const bool copies = has_copies(weights), whole_masters = has_whole_masters(weights);
  MemoryNeed need;
  need.weights = (whole_masters ? whole : share) * kWide + (copies ? shards.padded() * narrow : 0);
  need.weights += (plan.frozen + plan.adapted) * narrow;  // and of the latter B A added
  if (weights.delta) need.weights += all * kWide;         // where changes are counted from
  if (distils(config, loop) && !weights.device.is_cpu()) need.weights += all * narrow;  // the teacher
  need.gradients = copies ? share * kWide + shards.padded() * narrow : whole * kWide;
  need.moments = 2 * share * kWide;
  if (shards.ranks() > 1 && !shards.chunks().empty()) {
    // Gloo needs room for what it receives, in each of its two threads when weights are fetched; a copy's
    // gradients need room for their float32.
    const auto sums = static_cast<int64_t>(std::min(InFlight::kMost, shards.chunks().size()));
    need.exchange = (sums * (copies ? 2 : 1) + 2) * shards.size(shards.chunks().front()) * kWide;
  }
  need.activations = activation_bytes(config, weights, loop, context);
  need.closing = all * kWide;
  if (weights.device.is_cpu() && !whole_masters)
    need.closing += plan.numbers() * kWide;  // gathered to be saved
  return need;
}

PeakMemory::PeakMemory(const at::Device& device) : device_(device) {
  if (device.is_cpu()) {
    std::ofstream("/proc/self/clear_refs") << "5";  // the peak starts again from here
  } else {
    at::globalContext().lazyInitDevice(device.type());  // a resumed run may not have touched the GPU yet
    c10::getDeviceAllocator(device.type())->resetPeakStats(device.index());
  }
}

int64_t PeakMemory::bytes() const {
  if (device_.is_cpu()) return read_status("VmHWM");
  constexpr size_t kAll = 0;  // the statistic over all pools
  return c10::getDeviceAllocator(device_.type())->getDeviceStats(device_.index()).allocated_bytes[kAll].peak;
}

void return_freed_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

int64_t resident_bytes() {
  return read_status("VmRSS");
}

int64_t owned_bytes(const NamedTensors& tensors) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.defined() && tensor.is_cpu() && tensor.use_count() == 1 && tensor.storage().use_count() == 1)
      bytes += static_cast<int64_t>(tensor.nbytes());
  }
  return bytes;
}

}  // namespace openwork
