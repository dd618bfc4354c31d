#include "train/gradient_exchange.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <mutex>

#include "train/in_flight.h"

namespace openwork {

struct GradientExchange::State {
  struct Turn {
    ShardPlan::Chunk chunk;
    int leaves = 0, missing = 0;  // those with numbers in it; those the pass has not come to
  };

  TrainedWeights& weights;
  Ranks& ranks;
  std::vector<Turn> turns;  // in the order their sums begin
  InFlight sums;
  std::mutex mutex;
  size_t next = 0;  // the first turn whose sum has not begun
  int64_t early = 0;
  bool armed = false, last = false, learns_gates = false;

  State(TrainedWeights& trained, Ranks& others) : weights(trained), ranks(others) {
    const WeightPlan& plan = weights.plan();
    for (const ShardPlan::Chunk& chunk : plan.shards.chunks()) turns.push_back({chunk});
    // The last first: backward passes come to them first. But embeddings and norms, after the matrices in the
    // buffer, are not whole before the first layer is.
    const auto rank_of = [&](const Turn& turn) {
      const bool matrices = turn.chunk.begin + plan.shards.size(turn.chunk) <= plan.bounds[1];
      return std::pair(matrices ? 0 : 1, -turn.chunk.begin);
    };
    std::sort(turns.begin(), turns.end(),
              [&](const Turn& a, const Turn& b) { return rank_of(a) < rank_of(b); });
  }

  std::vector<size_t> turns_of(const TrainedTensor& tensor) const {
    std::vector<size_t> result;
    const int64_t end = tensor.offset + tensor.count();
    for (size_t n = 0; n < turns.size(); ++n) {
      const ShardPlan::Chunk& chunk = turns[n].chunk;
      if (chunk.begin < end && tensor.offset < chunk.begin + weights.plan().shards.size(chunk))
        result.push_back(n);
    }
    return result;
  }

  Ranks::Wait begin_sum(const ShardPlan::Chunk& chunk) {
    const int64_t size = weights.plan().shards.size(chunk);
    if (!weights.copies().defined())
      return ranks.start_scatter_sum(weights.gradients().narrow(0, chunk.begin, size));
    const Tensor sum = weights.take_gradients(chunk.begin, size);
    return [this, chunk, sum, wait = ranks.start_scatter_sum(sum)] {
      const at::NoGradGuard no_grad;
      wait();
      weights.own_piece(weights.gradients(), chunk)
          .add_(sum.narrow(0, ranks.rank() * chunk.piece, chunk.piece));
    };
  }

  void begin_sums(bool all) {
    for (; next < turns.size() && (all || turns[next].missing == 0); ++next)
      sums.add([&] { return begin_sum(turns[next].chunk); });
  }

  void note(const std::vector<size_t>& filled) {
    const std::lock_guard lock(mutex);
    if (!armed) return;
    for (const size_t turn : filled) --turns[turn].missing;
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

GradientExchange::GradientExchange(TrainedWeights& weights, Ranks& ranks) : weights_(weights) {
  if (ranks.count() == 1) return;
  state_ = std::make_shared<State>(weights, ranks);
  for (const TrainedTensor& tensor : weights.tensors()) {
    if (!tensor.leaf.requires_grad()) continue;
    if (tensor.is_gate()) {
      state_->learns_gates = true;
      continue;
    }
    const std::vector<size_t> turns = state_->turns_of(tensor);
    for (const size_t turn : turns) ++state_->turns[turn].leaves;
    torch::autograd::impl::set_post_acc_grad_hooks(
        tensor.leaf, std::make_unique<LeafHook>([state = state_, turns] { state->note(turns); }));
  }
}

GradientExchange::~GradientExchange() {
  if (!state_) return;
  for (const TrainedTensor& tensor : weights_.tensors()) {
    if (tensor.leaf.requires_grad()) torch::autograd::impl::set_post_acc_grad_hooks(tensor.leaf, nullptr);
  }
}

void GradientExchange::begin(bool last) {
  if (!state_) return;
  const std::lock_guard lock(state_->mutex);
  for (State::Turn& turn : state_->turns) turn.missing = turn.leaves;
  state_->next = 0;
  state_->last = last;
  state_->armed = last || weights_.copies().defined();
}

void GradientExchange::finish() {
  if (!state_) return weights_.collect_gradients();
  const std::lock_guard lock(state_->mutex);
  if (!state_->armed) return;
  state_->early = static_cast<int64_t>(state_->next);
  state_->begin_sums(true);  // those with a parameter that had no part in this pass
  state_->armed = false;
  state_->sums.finish();
  if (state_->last && state_->learns_gates)
    state_->ranks.sum_in_order(weights_.gates_of(weights_.gradients()));
}

int64_t GradientExchange::chunks() const {
  return state_ ? static_cast<int64_t>(state_->turns.size()) : 0;
}

int64_t GradientExchange::started_early() const {
  return state_ ? state_->early : 0;
}

}  // namespace openwork
