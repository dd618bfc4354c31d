#include "train/weights.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/philox.h"
#include "train/recompute.h"

namespace openwork {
namespace {

// PEFT's start: A uniform within +-1/sqrt(in), B zero, so that the model begins as it was.
Tensor draw_lora_a(const std::vector<int64_t>& shape, uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  const double bound = 1 / std::sqrt(static_cast<double>(shape[1]));
  return at::rand(shape, generator, at::TensorOptions().dtype(at::kFloat)) * (2 * bound) - bound;
}

}  // namespace

TrainedWeights::TrainedWeights(ModelConfig config, NamedTensors start, const WeightOptions& options,
                               const NamedTensors& origin)
    : config_(std::move(config)), options_(options), plan_(plan_weights(config_, options)) {
  const at::NoGradGuard no_grad;
  place(start);
  make_gradients();
  make_leaves(start);
  if (options_.delta) make_rounding(origin);
  refresh();
  if (!options_.lora) make_model(parameters_);
}

void TrainedWeights::make_model(NamedTensors parameters) {
  model_.emplace(config_, std::move(parameters));
  // Ranks are told by autograd when a gradient is whole, and sums of LoRA's factors are no leaves.
  if (plan_.shards.ranks() == 1 && !options_.lora) model_->add_to_grads();
  if (options_.recompute) recompute_layers(*model_);
}

void TrainedWeights::make_gradients() {
  const ShardPlan& shards = plan_.shards;
  gradients_ = at::zeros({(has_copies(options_) ? shards.share() : shards.padded()) + plan_.gates()},
                         masters_.options());
  if (!has_copies(options_)) return;
  copies_ = at::zeros({shards.padded()}, masters_.options().dtype(options_.dtype));
  copy_gradients_ = at::zeros_like(copies_);
}

void TrainedWeights::place(NamedTensors& start) {
  const auto wide = at::TensorOptions().dtype(at::kFloat).device(options_.device);
  const ShardPlan& shards = plan_.shards;
  masters_ =
      at::zeros({(has_whole_masters(options_) ? shards.padded() : shards.share()) + plan_.gates()}, wide);
  std::map<std::string, Tensor*> given;
  for (auto& [name, tensor] : start) given[name] = &tensor;
  uint64_t number = 0;
  for (const TrainedTensor& tensor : tensors()) {
    const auto it = given.find(tensor.name);
    if (it != given.end()) write_master(tensor, std::exchange(*it->second, Tensor()));
    if (tensor.name.ends_with(".lora_A.weight"))
      write_master(tensor, draw_lora_a(tensor.shape, mix_seed(options_.seed, number++)));
  }
}

// Where masters are a share, only what of the tensor is this rank's.
void TrainedWeights::write_master(const TrainedTensor& tensor, const Tensor& numbers) {
  if (tensor.is_gate() || is_whole(masters_)) {
    master(tensor).copy_(numbers);
    return;
  }
  const Tensor flat = numbers.reshape({-1});
  const int64_t tensor_end = tensor.offset + tensor.count();
  for (const ShardPlan::Chunk& chunk : plan_.shards.chunks()) {
    const int64_t own = plan_.shards.own_begin(chunk), begin = std::max(own, tensor.offset),
                  end = std::min(own + chunk.piece, tensor_end);
    if (begin >= end) continue;
    own_piece(masters_, chunk)
        .narrow(0, begin - own, end - begin)
        .copy_(flat.narrow(0, begin - tensor.offset, end - begin));
  }
}

bool TrainedWeights::is_whole(const Tensor& flat) const {
  return flat.numel() == plan_.shards.padded() + plan_.gates();
}

Tensor TrainedWeights::gates_of(const Tensor& flat) const {
  return flat.narrow(0, flat.numel() - plan_.gates(), plan_.gates());
}

Tensor TrainedWeights::own_piece(const Tensor& flat, const ShardPlan::Chunk& chunk) const {
  const ShardPlan& shards = plan_.shards;
  return flat.narrow(0, is_whole(flat) ? shards.own_begin(chunk) : shards.own_place(chunk), chunk.piece);
}

std::vector<TrainedWeights::Owned> TrainedWeights::owned(Segment segment) const {
  const auto n = static_cast<size_t>(segment);
  const int64_t first = plan_.bounds[n], last = plan_.bounds[n + 1];
  const ShardPlan& shards = plan_.shards;
  std::vector<Owned> result;
  if (segment >= Segment::kGateBias) {
    const int64_t place = first - plan_.bounds[static_cast<size_t>(Segment::kGateBias)];
    const auto part = [&](const Tensor& flat) { return gates_of(flat).narrow(0, place, last - first); };
    if (last > first) result.push_back({shards.share() + place, part(masters_), part(gradients_)});
    return result;
  }
  for (const ShardPlan::Chunk& chunk : shards.chunks()) {
    const int64_t own = shards.own_begin(chunk), begin = std::max(own, first),
                  end = std::min(own + chunk.piece, last);
    if (begin >= end) continue;
    const auto part = [&](const Tensor& flat) {
      return own_piece(flat, chunk).narrow(0, begin - own, end - begin);
    };
    result.push_back({shards.own_place(chunk) + begin - own, part(masters_), part(gradients_)});
  }
  return result;
}

// A tensor's numbers in a whole buffer, or a gate's in any.
Tensor TrainedWeights::view(const Tensor& flat, const TrainedTensor& tensor) const {
  const int64_t past_gates = plan_.numbers() - tensor.offset;  // gates end every buffer that has them
  return flat.narrow(0, tensor.is_gate() ? flat.numel() - past_gates : tensor.offset, tensor.count())
      .view(tensor.shape);
}

Tensor TrainedWeights::master(const TrainedTensor& tensor) const {
  return view(masters_, tensor);
}

// Leaves that autograd accumulates into: their gradients are views of the flat ones from the start.
void TrainedWeights::make_leaves(const NamedTensors& start) {
  std::map<std::string, Tensor> leaves;
  for (TrainedTensor& tensor : plan_.tensors) {
    const bool copied = copies_.defined() && !tensor.is_gate();
    tensor.leaf = view(copied ? copies_ : masters_, tensor).detach();
    leaves[tensor.name] = tensor.leaf;
    if (tensor.segment == Segment::kGateBias && !options_.learn_bias) continue;
    if (tensor.segment == Segment::kGateIdle && !options_.learn_idle) continue;
    tensor.leaf.set_requires_grad(true);
    tensor.leaf.mutable_grad() = view(copied ? copy_gradients_ : gradients_, tensor).detach();
  }
  for (const auto& [name, tensor] : start) {
    const bool trained = leaves.contains(name);
    parameters_.emplace_back(name,
                             trained ? leaves[name] : tensor.detach().to(options_.device, options_.dtype));
  }
}

void TrainedWeights::make_rounding(const NamedTensors& origin) {
  const std::map<std::string, Tensor> given(origin.begin(), origin.end());
  std::vector<WeightRounding::Matrix> matrices;
  for (const TrainedTensor& tensor : tensors()) {
    if (tensor.shape.size() != 2) continue;
    const auto it = given.find(tensor.name);
    matrices.push_back(
        {tensor.name, master(tensor), tensor.leaf, it != given.end() ? it->second : master(tensor)});
  }
  rounding_.emplace(*options_.delta, matrices);
}

const Transformer& TrainedWeights::pass_model() {
  if (std::exchange(rounding_is_due_, false)) rounding_->write_leaves(rounded_share_);
  if (!options_.lora) return *model_;
  model_.reset();  // the last pass's sums go before this one's come
  NamedTensors adapted_parameters;
  for (const auto& [name, tensor] : parameters_)
    adapted_parameters.emplace_back(
        name, adapted(name, tensor, [](const TrainedTensor& trained) { return trained.leaf; }));
  make_model(std::move(adapted_parameters));
  return *model_;
}

Tensor TrainedWeights::adapted(const std::string& name, const Tensor& weight,
                               const std::function<Tensor(const TrainedTensor&)>& find) const {
  if (!options_.lora) return weight;
  const std::string module = module_name(name);
  Tensor a, b;
  for (const TrainedTensor& tensor : tensors()) {
    if (!tensor.name.starts_with(module)) continue;
    if (tensor.name == module + ".lora_A.weight") a = find(tensor);
    if (tensor.name == module + ".lora_B.weight") b = find(tensor);
  }
  if (!a.defined()) return weight;
  return add_lora(weight, a, b, options_.lora->alpha / static_cast<double>(options_.lora->rank),
                  config_.transposed_linear);
}

void TrainedWeights::refresh() {
  const at::NoGradGuard no_grad;
  if (copies_.defined() && is_whole(masters_)) {
    copies_.copy_(masters_.narrow(0, 0, copies_.numel()));
  } else if (copies_.defined()) {  // the others' pieces come from them
    const ShardPlan& shards = plan_.shards;
    for (const ShardPlan::Chunk& chunk : shards.chunks())
      copies_.narrow(0, shards.own_begin(chunk), chunk.piece).copy_(own_piece(masters_, chunk));
  }
  rounding_is_due_ = rounded_share_ > 0;
}

void TrainedWeights::round_to_base(double share) {
  if (share == rounded_share_ || !options_.delta) return;
  rounded_share_ = share;
  refresh();
}

void TrainedWeights::zero_gradients() {
  const at::NoGradGuard no_grad;
  if (copy_gradients_.defined()) copy_gradients_.zero_();
  // What the first pass's copies will be written over need not be cleared.
  collects_anew_ = copy_gradients_.defined() && plan_.shards.ranks() == 1;
  (collects_anew_ ? gates_of(gradients_) : gradients_).zero_();
}

void TrainedWeights::collect_gradients() {
  if (!copy_gradients_.defined()) return;
  const at::NoGradGuard no_grad;
  // Piece by piece: adding to another dtype the CPU first copies what it adds. The gates have no copy.
  constexpr int64_t kPiece = int64_t{1} << 24;
  for (int64_t begin = 0; begin < copy_gradients_.numel(); begin += kPiece) {
    const int64_t count = std::min(kPiece, copy_gradients_.numel() - begin);
    const Tensor sum = gradients_.narrow(0, begin, count), added = copy_gradients_.narrow(0, begin, count);
    collects_anew_ ? sum.copy_(added) : sum.add_(added);
  }
  collects_anew_ = false;
  copy_gradients_.zero_();
}

Tensor TrainedWeights::take_gradients(int64_t begin, int64_t count) {
  const at::NoGradGuard no_grad;
  Tensor part = copy_gradients_.narrow(0, begin, count);
  Tensor result = part.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
  part.zero_();
  return result;
}

void TrainedWeights::release_gradients() {
  for (const TrainedTensor& tensor : tensors()) tensor.leaf.mutable_grad() = Tensor();
  gradients_ = copy_gradients_ = Tensor();
}

void TrainedWeights::shift(Segment segment, double amount) {
  const at::NoGradGuard no_grad;
  for (const TrainedTensor& tensor : tensors()) {
    if (tensor.segment == segment) master(tensor).add_(amount);
  }
}

Tensor TrainedWeights::trained_tensor(const Tensor& trained, const TrainedTensor& tensor) const {
  return trained.defined() ? view(trained, tensor) : master(tensor);
}

NamedTensors TrainedWeights::export_parameters(const Tensor& trained) const {
  const at::NoGradGuard no_grad;
  const auto find = [&](const TrainedTensor& tensor) { return trained_tensor(trained, tensor); };
  std::map<std::string, Tensor> own;
  for (const TrainedTensor& tensor : tensors()) own[tensor.name] = find(tensor);
  NamedTensors result;
  for (const auto& [name, frozen] : parameters_) {
    const Tensor numbers =
        own.contains(name)
            ? own[name]
            : adapted(name, frozen.to(trained.defined() ? at::kCPU : options_.device, at::kFloat), find);
    result.emplace_back(name, numbers.detach().to(at::kFloat).cpu());
  }
  return result;
}

NamedTensors TrainedWeights::export_adapter(const Tensor& trained) const {
  NamedTensors result;
  for (const TrainedTensor& tensor : tensors())
    result.emplace_back(tensor.name, trained_tensor(trained, tensor).detach().cpu());
  return result;
}

}  // namespace openwork
