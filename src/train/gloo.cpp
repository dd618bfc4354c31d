#include "train/gloo.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <cstdlib>

namespace openwork {
namespace {

using c10d::ProcessGroupGloo;
using std::chrono::milliseconds;

constexpr milliseconds kWait = std::chrono::hours(24 * 7);  // the heartbeat says who is gone, not a slow peer

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "localhost" || address == "::1";
}

std::vector<std::shared_ptr<gloo::transport::Device>> choose_devices(const std::string& address) {
  const char* const interface = std::getenv("GLOO_SOCKET_IFNAME");
  if (interface && *interface) return {ProcessGroupGloo::createDeviceForInterface(interface)};
  if (is_loopback(address)) return {ProcessGroupGloo::createDeviceForHostname("127.0.0.1")};
  return {ProcessGroupGloo::createDefaultDevice()};
}

}  // namespace

struct Gloo::State {
  c10::intrusive_ptr<ProcessGroupGloo> group;
  int rank = 0, count = 1;

  Wait start_reduce(const at::Tensor& tensor, c10d::ReduceOp::RedOpType operation) {
    std::vector<at::Tensor> tensors = {tensor};
    c10d::AllreduceOptions options;
    options.reduceOp = operation;
    options.timeout = kWait;
    return [work = group->allreduce(tensors, options)] { work->wait(); };
  }
};

Gloo::Gloo(const c10::intrusive_ptr<c10d::Store>& store, const std::string& name, const RankPlace& place,
           milliseconds join)
    : state_(std::make_unique<State>()) {
  const auto options = ProcessGroupGloo::Options::create(join);
  options->devices = choose_devices(place.address);
  state_->rank = place.rank, state_->count = place.count;
  state_->group = c10::make_intrusive<ProcessGroupGloo>(c10::make_intrusive<c10d::PrefixStore>(name, store),
                                                        place.rank, place.count, options);
}

Gloo::~Gloo() = default;

Gloo::Wait Gloo::start_sum(const at::Tensor& tensor) {
  return state_->start_reduce(tensor, c10d::ReduceOp::SUM);
}

Gloo::Wait Gloo::start_max(const at::Tensor& tensor) {
  return state_->start_reduce(tensor, c10d::ReduceOp::MAX);
}

void Gloo::broadcast(const at::Tensor& tensor) {
  std::vector<at::Tensor> tensors = {tensor};
  c10d::BroadcastOptions options;
  options.timeout = kWait;
  state_->group->broadcast(tensors, options)->wait();
}

// c10d's own reduce-scatter over Gloo sums everything everywhere and throws most of it away. Here each rank
// is sent its piece of every other's tensor, which is the least there is to send, and adds them up itself:
// in the order of ranks, as one process adds up its passes.
Gloo::Wait Gloo::start_scatter_sum(const at::Tensor& whole) {
  const at::NoGradGuard no_grad;
  at::Tensor pieces = at::empty_like(whole), input = whole;
  std::vector<int64_t> equal;  // none: equal parts
  c10d::AllToAllOptions options;
  options.timeout = kWait;
  const auto work = state_->group->alltoall_base(pieces, input, equal, equal, options);
  return [work, pieces, whole, rank = state_->rank, count = state_->count] {
    const at::NoGradGuard no_grad;
    work->wait();
    const at::Tensor rows = pieces.view({count, -1});
    at::Tensor own = whole.view({count, -1}).select(0, rank);
    own.copy_(rows.select(0, 0));
    for (int other = 1; other < count; ++other) own.add_(rows.select(0, other));
  };
}

Gloo::Wait Gloo::start_gather(const at::Tensor& whole) {
  const at::Tensor bytes = whole.view(at::kByte).view({state_->count, -1});  // Gloo does not know all dtypes
  std::vector<std::vector<at::Tensor>> outputs = {bytes.unbind(0)};
  std::vector<at::Tensor> inputs = {bytes.select(0, state_->rank)};
  c10d::AllgatherOptions options;
  options.timeout = kWait;
  return [work = state_->group->allgather(outputs, inputs, options)] { work->wait(); };
}

}  // namespace openwork
