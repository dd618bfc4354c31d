#include "train/weight_plan.h"

#include <set>

#include "model/architecture.h"

namespace openwork {
namespace {

constexpr int64_t kAlignment = 64;  // numbers: keeps every tensor at a whole 128 bytes in either dtype

Segment segment_of(const ParameterSpec& spec) {
  switch (spec.role) {
    case Role::kGateBias:
      return Segment::kGateBias;
    case Role::kGateIdle:
      return Segment::kGateIdle;
    case Role::kEmbedding:
    case Role::kPositions:
    case Role::kNorm1:
    case Role::kNorm2:
    case Role::kQueryNorm:
    case Role::kKeyNorm:
    case Role::kFinalNorm:
      return Segment::kPlain;
    default:
      return spec.bias ? Segment::kPlain : Segment::kDecayed;
  }
}

std::set<std::string> as_set(const std::vector<std::string>& names) {
  return {names.begin(), names.end()};
}

// Which tensors are trained, in the model's order; and how many numbers of the model are not.
std::vector<TrainedTensor> find_trained(const ModelConfig& config, const WeightOptions& options,
                                        WeightPlan& plan) {
  std::vector<TrainedTensor> found;
  std::set<std::string> targets, full;
  if (options.lora) {
    targets = as_set(find_lora_targets(config, *options.lora));
    full = as_set(find_full_parameters(config, *options.lora));
  }
  for (const ParameterSpec& spec :
       list_parameters(architecture_named(config.architecture, "model"), config)) {
    const TrainedTensor whole{spec.name, segment_of(spec), spec.shape, 0, {}};
    if (is_gate(spec.role) || !options.lora || full.contains(spec.name)) {
      found.push_back(whole);
      continue;
    }
    plan.frozen += whole.count();
    if (!targets.contains(spec.name)) continue;
    plan.adapted += whole.count();
    const int64_t in = spec.shape[config.transposed_linear ? 0 : 1],
                  out = spec.shape[config.transposed_linear ? 1 : 0];
    const std::string module = module_name(spec.name);
    found.push_back({module + ".lora_A.weight", Segment::kDecayed, {options.lora->rank, in}, 0, {}});
    found.push_back({module + ".lora_B.weight", Segment::kDecayed, {out, options.lora->rank}, 0, {}});
  }
  return found;
}

}  // namespace

int64_t TrainedTensor::count() const {
  int64_t result = 1;
  for (const int64_t size : shape) result *= size;
  return result;
}

WeightPlan plan_weights(const ModelConfig& config, const WeightOptions& options) {
  WeightPlan plan;
  const std::vector<TrainedTensor> found = find_trained(config, options, plan);
  int64_t offset = 0;
  for (size_t segment = 0; segment < kSegments; ++segment) {
    plan.bounds[segment] = offset;
    for (TrainedTensor tensor : found) {
      if (static_cast<size_t>(tensor.segment) != segment) continue;
      tensor.offset = offset;
      offset += (tensor.count() + kAlignment - 1) / kAlignment * kAlignment;
      plan.tensors.push_back(std::move(tensor));
    }
  }
  plan.bounds[kSegments] = offset;
  plan.shards = ShardPlan(plan.bounds[static_cast<size_t>(Segment::kGateBias)], options.rank, options.ranks,
                          options.chunk_bytes);
  return plan;
}

bool has_copies(const WeightOptions& options) {
  return options.dtype != at::kFloat || options.delta.has_value();
}

bool has_whole_masters(const WeightOptions& options) {
  return options.ranks == 1 || !has_copies(options) || options.delta.has_value();
}

}  // namespace openwork
