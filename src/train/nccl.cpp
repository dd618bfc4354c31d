#include "train/nccl.h"

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include "base/error.h"

namespace openwork {
namespace {

using c10::impl::VirtualGuardImpl;

// The part of nccl.h that is used here; its values have been the same since NCCL 2.0.
constexpr int kUint8 = 1, kInt64 = 4, kFloat32 = 7, kFloat64 = 8, kSum = 0;
struct Library {
  int (*get_unique_id)(Nccl::Id*) = nullptr;
  int (*init_rank)(void** comm, int count, Nccl::Id id, int rank) = nullptr;
  int (*all_reduce)(const void*, void*, size_t, int type, int operation, void* comm, void* stream) = nullptr;
  int (*broadcast)(const void*, void*, size_t, int type, int root, void* comm, void* stream) = nullptr;
  int (*reduce_scatter)(const void*, void*, size_t received, int type, int operation, void* comm,
                        void* stream) = nullptr;
  int (*all_gather)(const void*, void*, size_t sent, int type, void* comm, void* stream) = nullptr;
  const char* (*error_text)(int) = nullptr;
  bool whole = false;

  Library() {
    void* const handle = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!handle) return;
    const auto find = [&](const char* name, auto& function) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
      return function != nullptr;
    };
    whole = find("ncclGetUniqueId", get_unique_id) && find("ncclCommInitRank", init_rank) &&
            find("ncclAllReduce", all_reduce) && find("ncclBroadcast", broadcast) &&
            find("ncclReduceScatter", reduce_scatter) && find("ncclAllGather", all_gather) &&
            find("ncclGetErrorString", error_text);
  }
};

const Library& library() {
  static const Library loaded;
  return loaded;
}

void check(int result) {
  if (result == 0) return;
  fail(fmt::format("NCCL says '{}'", library().error_text(result)), "ranks",
       "see what NCCL_DEBUG=WARN tells, or set OPENWORK_NCCL=0 to use Gloo");
}

int type_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return kFloat32;
    case at::kDouble:
      return kFloat64;
    case at::kLong:
      return kInt64;
    default:
      fail(fmt::format("a sum over ranks of {}", c10::toString(tensor.scalar_type())), "ranks",
           "this is a defect: please report it");
  }
}

}  // namespace

struct Nccl::State {
  at::Device device;
  c10::Stream stream;  // of the exchanges
  void* comm = nullptr;
  int rank = 0, count = 1;

  // This rank's of a tensor's equal pieces.
  void* own_piece(const at::Tensor& whole) const {
    return static_cast<char*>(whole.data_ptr()) +
           whole.nbytes() / static_cast<size_t>(count) * static_cast<size_t>(rank);
  }

  // Orders `work` after what the current stream holds; the result orders the current stream after `work`.
  std::function<void()> run(const at::Tensor& tensor, const std::function<int(void* stream)>& work) {
    const c10::DeviceGuard guard(device);
    const VirtualGuardImpl streams(device.type());
    c10::Event before(device.type());
    before.record(streams.getStream(device));
    before.block(stream);
    check(work(streams.getStreamNativeHandle(stream)));
    const auto after = std::make_shared<c10::Event>(device.type());
    after->record(stream);
    return [after, tensor, where = device] {  // the tensor's memory is not given away before
      after->block(VirtualGuardImpl(where.type()).getStream(where));
    };
  }
};

bool Nccl::is_here() {
  return library().whole;
}

Nccl::Id Nccl::make_id() {
  Id id{};
  check(library().get_unique_id(&id));
  return id;
}

Nccl::Nccl(const at::Device& device, int rank, int count, const Id& id) {
  const c10::DeviceGuard guard(device);
  const VirtualGuardImpl streams(device.type());
  state_.reset(new State{device, streams.getStreamFromGlobalPool(device, /*isHighPriority=*/true), nullptr,
                         rank, count});
  check(library().init_rank(&state_->comm, count, id, rank));
}

// The communicator is left to the end of the process: closing it would wait for ranks that may be gone.
Nccl::~Nccl() = default;

std::function<void()> Nccl::start_sum(const at::Tensor& tensor) {
  return state_->run(tensor, [&](void* stream) {
    return library().all_reduce(tensor.data_ptr(), tensor.data_ptr(), static_cast<size_t>(tensor.numel()),
                                type_of(tensor), kSum, state_->comm, stream);
  });
}

std::function<void()> Nccl::start_scatter_sum(const at::Tensor& whole) {
  return state_->run(whole, [&](void* stream) {
    return library().reduce_scatter(whole.data_ptr(), state_->own_piece(whole),
                                    static_cast<size_t>(whole.numel() / state_->count), type_of(whole), kSum,
                                    state_->comm, stream);
  });
}

std::function<void()> Nccl::start_gather(const at::Tensor& whole) {
  return state_->run(whole, [&](void* stream) {
    return library().all_gather(state_->own_piece(whole), whole.data_ptr(),
                                whole.nbytes() / static_cast<size_t>(state_->count), kUint8, state_->comm,
                                stream);
  });
}

void Nccl::broadcast(const at::Tensor& tensor) {
  state_->run(tensor, [&](void* stream) {
    return library().broadcast(tensor.data_ptr(), tensor.data_ptr(), static_cast<size_t>(tensor.numel()),
                               type_of(tensor), /*root=*/0, state_->comm, stream);
  })();
}

}  // namespace openwork
