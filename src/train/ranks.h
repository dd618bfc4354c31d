// The processes of one job, over PyTorch's c10d: they meet at a TCP store, and add up tensors over Gloo (the
// CPU, and GPUs where there is nothing better) or NCCL (a GPU for each rank). A Ranks made without a place is
// one process alone, and everything here is then nothing: callers need no second way.
//   Ranks ranks(read_rank_place());
//   auto wait = ranks.start_sum(gradients);  ...  wait();        // every rank has the sum
//   ranks.run_first([&] { write_file(); });                      // the others go on when it is done
// All ranks call the same functions in the same order. A rank that is lost ends the others: a closed
// connection at once, a silent one after OPENWORK_RANK_TIMEOUT seconds (45), with one line and exit code 1.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

#include "train/rank_place.h"

namespace openwork {

class Ranks {
 public:
  Ranks();                                 // alone
  explicit Ranks(const RankPlace& place);  // joins the others; fails where they do not come
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  const RankPlace& place() const { return place_; }
  int rank() const { return place_.rank; }
  int count() const { return place_.count; }
  bool is_first() const { return place_.rank == 0; }

  // What start_sum works on from now on: NCCL where every rank has a GPU of its own and libnccl is there.
  void use_device(const at::Device& device);
  const char* transport() const;  // "none", "gloo" or "nccl"

  // Begins to replace the tensor by its sum over ranks; the result waits for it. Tensors are contiguous and
  // stay as they are in between.
  using Wait = std::function<void()>;
  Wait start_sum(const at::Tensor& tensor);
  void sum(const at::Tensor& tensor) { start_sum(tensor)(); }
  // The same for a few numbers, added up in the order of ranks, as one process adds up its passes.
  void sum_in_order(const at::Tensor& tensor);
  // Of a tensor of count() equal pieces, one for each rank (shards.h): begins to replace this rank's piece by
  // its sum over ranks, the others being of no use afterwards; and to fetch everybody's own piece. Over Gloo
  // pieces too are added up in the order of ranks.
  Wait start_scatter_sum(const at::Tensor& whole);
  Wait start_gather(const at::Tensor& whole);
  // The largest of small host numbers, on a line of its own, so that it may run beside a sum.
  Wait start_max(const at::Tensor& host);
  void broadcast(const at::Tensor& tensor);  // the first rank's
  bool decide(bool answer);                  // the first rank's answer, on all of them

  // [begin, end) of `items` that are this rank's: whole ranges in the order of ranks, sizes within one.
  std::pair<int64_t, int64_t> share(int64_t items) const;

  void run_first(const std::function<void()>& work);  // on the first rank; all return after it
  void barrier();
  void leave();  // all ranks, last: nobody is missed afterwards

 private:
  struct State;
  RankPlace place_;
  std::unique_ptr<State> state_;  // none: alone
};

}  // namespace openwork
