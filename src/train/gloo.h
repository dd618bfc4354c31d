// Gloo, inside libtorch: exchanges between ranks over TCP, of CPU tensors or of GPU ones through host memory.
// The same functions as nccl.h has, but that sums may be had in the order of ranks. Everything throws where
// another rank is lost; ranks.h turns that into the end of the program.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "train/rank_place.h"

namespace c10d {
class Store;
}  // namespace c10d

namespace openwork {

class Gloo {
 public:
  using Wait = std::function<void()>;

  // All ranks at the same time, with the same name; waits for the others as long as `join`.
  Gloo(const c10::intrusive_ptr<c10d::Store>& store, const std::string& name, const RankPlace& place,
       std::chrono::milliseconds join);
  ~Gloo();
  Gloo(const Gloo&) = delete;
  Gloo& operator=(const Gloo&) = delete;

  // In place; the results wait.
  Wait start_sum(const at::Tensor& tensor);
  Wait start_max(const at::Tensor& tensor);
  void broadcast(const at::Tensor& tensor);  // the first rank's
  // `whole` [ranks * n]: the rank's own n become their sum over ranks, added up in the order of ranks; the
  // others' are left as they were.
  Wait start_scatter_sum(const at::Tensor& whole);
  Wait start_gather(const at::Tensor& whole);  // every rank's own n, to all; any dtype

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace openwork
