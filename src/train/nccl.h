// NCCL, called through the C functions of whichever libnccl the process's libtorch brought: found when the
// program runs, so that nothing of CUDA is needed where it is compiled. Sums run on a stream of their own,
// beside the backward pass.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <functional>
#include <memory>

namespace openwork {

class Nccl {
 public:
  using Id = std::array<char, 128>;

  static bool is_here();  // whether libnccl can be loaded
  static Id make_id();    // on one rank, for all
  // All ranks at the same time, each with a GPU of its own.
  Nccl(const at::Device& device, int rank, int count, const Id& id);
  ~Nccl();
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  // In place; the result makes the current stream wait. float32, float64 or int64.
  std::function<void()> start_sum(const at::Tensor& tensor);
  void broadcast(const at::Tensor& tensor);  // the first rank's
  // `whole` [ranks * n]: the rank's own n become their sum over ranks, the others' are of no use afterwards.
  std::function<void()> start_scatter_sum(const at::Tensor& whole);
  std::function<void()> start_gather(const at::Tensor& whole);  // every rank's own n, to all; any dtype

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace openwork
