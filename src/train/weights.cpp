#include "train/weights.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <map>
#include <set>

#include "base/philox.h"
#include "model/architecture.h"
#include "train/recompute.h"

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

int64_t count_of(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

// PEFT's start: A uniform within +-1/sqrt(in), B zero, so that the model begins as it was.
Tensor draw_lora_a(const std::vector<int64_t>& shape, uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  const double bound = 1 / std::sqrt(static_cast<double>(shape[1]));
  return at::rand(shape, generator, at::TensorOptions().dtype(at::kFloat)) * (2 * bound) - bound;
}

}  // namespace

TrainedWeights::TrainedWeights(ModelConfig config, const NamedTensors& start, const WeightOptions& options,
                               const NamedTensors& origin)
    : config_(std::move(config)), options_(options) {
  const at::NoGradGuard no_grad;
  plan();
  place(start, origin);
  make_leaves(start);
  refresh();
  if (!options_.lora) make_model(parameters_);
}

void TrainedWeights::make_model(NamedTensors parameters) {
  model_.emplace(config_, std::move(parameters));
  if (options_.recompute) recompute_layers(*model_);
}

// Which tensors are trained and where each lies, segment by segment.
void TrainedWeights::plan() {
  std::vector<TrainedTensor> found;
  std::set<std::string> targets;
  if (options_.lora) {
    for (const std::string& name : find_lora_targets(config_, *options_.lora)) targets.insert(name);
  }
  for (const ParameterSpec& spec :
       list_parameters(architecture_named(config_.architecture, "model"), config_)) {
    if (is_gate(spec.role) || !options_.lora)
      found.push_back({spec.name, segment_of(spec), spec.shape, 0, {}});
    if (!targets.contains(spec.name)) continue;
    const int64_t in = spec.shape[config_.transposed_linear ? 0 : 1],
                  out = spec.shape[config_.transposed_linear ? 1 : 0];
    const std::string module = module_name(spec.name);
    found.push_back({module + ".lora_A.weight", Segment::kDecayed, {options_.lora->rank, in}, 0, {}});
    found.push_back({module + ".lora_B.weight", Segment::kDecayed, {out, options_.lora->rank}, 0, {}});
  }
  int64_t offset = 0;
  for (size_t segment = 0; segment < kSegments; ++segment) {
    bounds_[segment] = offset;
    for (TrainedTensor& tensor : found) {
      if (static_cast<size_t>(tensor.segment) != segment) continue;
      tensor.offset = offset;
      offset += (count_of(tensor.shape) + kAlignment - 1) / kAlignment * kAlignment;
      tensors_.push_back(tensor);
    }
  }
  bounds_[kSegments] = offset;
}

void TrainedWeights::place(const NamedTensors& start, const NamedTensors& origin) {
  const auto wide = at::TensorOptions().dtype(at::kFloat).device(options_.device);
  masters_ = at::zeros({bounds_[kSegments]}, wide);
  gradients_ = at::zeros_like(masters_);
  if (options_.dtype != at::kFloat || options_.delta) {
    copies_ = at::zeros({bounds_[static_cast<size_t>(Segment::kGateBias)]}, wide.dtype(options_.dtype));
    copy_gradients_ = at::zeros_like(copies_);
  }
  const std::map<std::string, Tensor> given(start.begin(), start.end()), from(origin.begin(), origin.end());
  uint64_t number = 0;
  for (const TrainedTensor& tensor : tensors_) {
    const auto it = given.find(tensor.name);
    if (it != given.end()) master(tensor).copy_(it->second);
    if (options_.delta && tensor.shape.size() == 2) {
      const auto before = from.find(tensor.name);
      origin_.emplace_back(tensor.name,
                           before != from.end() ? before->second.to(wide).clone() : master(tensor).clone());
    }
    if (tensor.name.ends_with(".lora_A.weight")) {
      master(tensor).copy_(draw_lora_a(tensor.shape, mix_seed(options_.seed, number++)));
    }
  }
}

Tensor TrainedWeights::master(const TrainedTensor& tensor) const {
  return masters_.narrow(0, tensor.offset, count_of(tensor.shape)).view(tensor.shape);
}

// Leaves that autograd accumulates into: their gradients are views of the flat ones from the start.
void TrainedWeights::make_leaves(const NamedTensors& start) {
  std::map<std::string, Tensor> leaves;
  for (TrainedTensor& tensor : tensors_) {
    const bool copied = copies_.defined() && tensor.segment < Segment::kGateBias;
    const int64_t count = count_of(tensor.shape);
    const auto view = [&](const Tensor& flat) {
      return flat.narrow(0, tensor.offset, count).view(tensor.shape).detach();
    };
    tensor.leaf = view(copied ? copies_ : masters_);
    leaves[tensor.name] = tensor.leaf;
    if (tensor.segment == Segment::kGateBias && !options_.learn_bias) continue;
    if (tensor.segment == Segment::kGateIdle && !options_.learn_idle) continue;
    tensor.leaf.set_requires_grad(true);
    tensor.leaf.mutable_grad() = view(copied ? copy_gradients_ : gradients_);
  }
  for (const auto& [name, tensor] : start) {
    const bool trained = leaves.contains(name);
    parameters_.emplace_back(name,
                             trained ? leaves[name] : tensor.detach().to(options_.device, options_.dtype));
  }
}

const Transformer& TrainedWeights::pass_model() {
  if (!options_.lora) return *model_;
  NamedTensors adapted_parameters;
  for (const auto& [name, tensor] : parameters_)
    adapted_parameters.emplace_back(name, adapted(name, tensor, false));
  make_model(std::move(adapted_parameters));
  return *model_;
}

Tensor TrainedWeights::adapted(const std::string& name, const Tensor& weight, bool on_masters) const {
  const std::string module = module_name(name);
  Tensor a, b;
  for (const TrainedTensor& tensor : tensors_) {
    if (!tensor.name.starts_with(module)) continue;
    if (tensor.name == module + ".lora_A.weight") a = on_masters ? master(tensor) : tensor.leaf;
    if (tensor.name == module + ".lora_B.weight") b = on_masters ? master(tensor) : tensor.leaf;
  }
  if (!a.defined()) return weight;
  return add_lora(weight, a, b, options_.lora->alpha / static_cast<double>(options_.lora->rank),
                  config_.transposed_linear);
}

void TrainedWeights::refresh() {
  const at::NoGradGuard no_grad;
  if (copies_.defined()) copies_.copy_(masters_.narrow(0, 0, copies_.numel()));
  if (!rounds_) return;
  const std::map<std::string, Tensor> origin(origin_.begin(), origin_.end());
  for (const TrainedTensor& tensor : tensors_) {
    const auto from = origin.find(tensor.name);
    if (from == origin.end()) continue;
    const auto bits = options_.delta->find(tensor.name);
    if (bits == options_.delta->end()) {
      tensor.leaf.copy_(from->second);
      continue;
    }
    const RoundedChange rounded = round_change(master(tensor) - from->second, bits->second);
    tensor.leaf.copy_(from->second + expand_change(rounded, bits->second));
  }
}

void TrainedWeights::round_to_base(bool on) {
  if (on == rounds_ || !options_.delta) return;
  rounds_ = on;
  refresh();
}

void TrainedWeights::zero_gradients() {
  const at::NoGradGuard no_grad;
  gradients_.zero_();
  if (copy_gradients_.defined()) copy_gradients_.zero_();
}

void TrainedWeights::collect_gradients() {
  collect_gradients(0, gradients_.numel());
}

void TrainedWeights::collect_gradients(int64_t begin, int64_t end) {
  if (!copy_gradients_.defined()) return;
  const at::NoGradGuard no_grad;
  const int64_t count = std::min(end, copy_gradients_.numel()) - begin;  // the gates have no copy
  if (count <= 0) return;
  Tensor part = copy_gradients_.narrow(0, begin, count);
  gradients_.narrow(0, begin, count).add_(part);
  part.zero_();
}

Tensor TrainedWeights::slice(const Tensor& flat, Segment segment) const {
  const auto n = static_cast<size_t>(segment);
  return flat.narrow(0, bounds_[n], bounds_[n + 1] - bounds_[n]);
}

void TrainedWeights::shift(Segment segment, double amount) {
  const at::NoGradGuard no_grad;
  for (const TrainedTensor& tensor : tensors_) {
    if (tensor.segment == segment) master(tensor).add_(amount);
  }
}

NamedTensors TrainedWeights::export_parameters() const {
  const at::NoGradGuard no_grad;
  std::map<std::string, Tensor> trained;
  for (const TrainedTensor& tensor : tensors_) trained[tensor.name] = master(tensor);
  NamedTensors result;
  for (const auto& [name, frozen] : parameters_) {
    const Tensor own = trained.contains(name) ? trained[name] : adapted(name, frozen.to(at::kFloat), true);
    result.emplace_back(name, own.detach().to(at::kFloat).cpu());
  }
  return result;
}

NamedTensors TrainedWeights::export_adapter() const {
  NamedTensors result;
  for (const TrainedTensor& tensor : tensors_)
    result.emplace_back(tensor.name, master(tensor).detach().cpu());
  return result;
}

}  // namespace openwork
