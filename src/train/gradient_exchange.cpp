#include "train/gradient_exchange.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <mutex>

namespace openwork {

struct GradientExchange::State {
  struct Bucket {
    int64_t begin = 0, end = 0;  // in the flat buffer
    int leaves = 0, missing = 0;
  };

  TrainedWeights& weights;
  Ranks& ranks;
  std::vector<Bucket> buckets;  // in the order their sums begin
  std::vector<Ranks::Wait> waits;
  std::mutex mutex;
  size_t next = 0;  // the first bucket whose sum has not begun
  int64_t early = 0;
  bool armed = false;

  State(TrainedWeights& trained, Ranks& others) : weights(trained), ranks(others) {}

  // The last tensors first: backward passes come to them first. Returns the bucket of the tensor.
  size_t place(const TrainedTensor& tensor, int64_t end, int64_t bucket_numbers) {
    const bool joins = !buckets.empty() && buckets.back().begin == end &&
                       buckets.back().end - tensor.offset <= bucket_numbers;
    if (!joins) buckets.push_back({tensor.offset, end});
    buckets.back().begin = tensor.offset;
    ++buckets.back().leaves;
    return buckets.size() - 1;
  }

  void begin_sums(bool all) {
    while (next < buckets.size() && (all || buckets[next].missing == 0)) {
      const Bucket& bucket = buckets[next++];
      weights.collect_gradients(bucket.begin, bucket.end);
      waits.push_back(
          ranks.start_sum(weights.gradients().narrow(0, bucket.begin, bucket.end - bucket.begin)));
    }
  }

  void note(size_t bucket) {
    const std::lock_guard lock(mutex);
    if (!armed) return;
    --buckets[bucket].missing;
    begin_sums(false);
  }
};

namespace {

struct LeafHook : torch::autograd::PostAccumulateGradHook {
  explicit LeafHook(std::function<void()> call) : call_(std::move(call)) {}
  void operator()(const at::Tensor&) override { call_(); }

 private:
  std::function<void()> call_;
};

}  // namespace

GradientExchange::GradientExchange(TrainedWeights& weights, Ranks& ranks, int64_t bucket_bytes)
    : weights_(weights) {
  if (ranks.count() == 1) return;
  state_ = std::make_shared<State>(weights, ranks);
  const std::vector<TrainedTensor>& tensors = weights.tensors();
  for (size_t segment = 0; segment < kSegments; ++segment) {
    for (size_t n = tensors.size(); n-- > 0;) {
      const TrainedTensor& tensor = tensors[n];
      if (static_cast<size_t>(tensor.segment) != segment || !tensor.leaf.requires_grad()) continue;
      const int64_t end = n + 1 < tensors.size() ? tensors[n + 1].offset : weights.gradients().numel();
      const size_t bucket = state_->place(tensor, end, bucket_bytes / static_cast<int64_t>(sizeof(float)));
      torch::autograd::impl::set_post_acc_grad_hooks(
          tensor.leaf, std::make_unique<LeafHook>([state = state_, bucket] { state->note(bucket); }));
    }
  }
}

GradientExchange::~GradientExchange() {
  if (!state_) return;
  for (const TrainedTensor& tensor : weights_.tensors()) {
    if (tensor.leaf.requires_grad()) torch::autograd::impl::set_post_acc_grad_hooks(tensor.leaf, nullptr);
  }
}

void GradientExchange::begin() {
  if (!state_) return;
  const std::lock_guard lock(state_->mutex);
  for (auto& bucket : state_->buckets) bucket.missing = bucket.leaves;
  state_->next = 0;
  state_->armed = true;
}

void GradientExchange::finish() {
  if (!state_) return weights_.collect_gradients();
  {
    const std::lock_guard lock(state_->mutex);
    state_->early = static_cast<int64_t>(state_->next);
    state_->begin_sums(true);  // those with a parameter that had no part in this pass
    state_->armed = false;
  }
  for (const Ranks::Wait& wait : state_->waits) wait();
  state_->waits.clear();
}

int64_t GradientExchange::buckets() const {
  return state_ ? static_cast<int64_t>(state_->buckets.size()) : 0;
}

int64_t GradientExchange::started_early() const {
  return state_ ? state_->early : 0;
}

}  // namespace openwork
