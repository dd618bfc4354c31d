// The kernels of gated attention in a CUDA graph: their seed is among their arguments, which a graph keeps, so that
// playing it again with other gates means writing other arguments.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

#include "ops/cuda/launch.h"
#include "ops/recording.h"

namespace openwork {

// A kernel's node, its launch and its arguments, of which the Problem comes first.
struct SeededNode {
  cudaGraphNode_t node = nullptr;
  cudaKernelNodeParams launch = {};
  std::vector<std::byte> arguments;

  cuda::Problem& problem() { return *reinterpret_cast<cuda::Problem*>(arguments.data()); }
};

// From its making until stop() calls of gated attention with a seed on a stream that is being captured leave their nodes
// here; one at a time.
class SeededNodes {
 public:
  SeededNodes();
  ~SeededNodes();
  SeededNodes(const SeededNodes&) = delete;
  SeededNodes& operator=(const SeededNodes&) = delete;

  void stop();  // no more nodes
  // Into a graph that was made of what was captured.
  void write(cudaGraphExec_t graph, const NewSeeds& seeds);

 private:
  friend class SeededLaunches;
  struct Entry {
    int64_t recorded = 0;  // seed
    SeededNode node;
  };
  std::vector<Entry> entries_;
};

// Notes what is launched between its making and done(): kernels with `Arguments` alone, one after another on the stream.
class SeededLaunches {
 public:
  SeededLaunches(const cuda::Problem& problem, cudaStream_t stream);
  template <class Arguments>
  void done() const {
    static_assert(offsetof(Arguments, problem) == 0);
    if (listens_) note(sizeof(Arguments));
  }

 private:
  void note(size_t argument_bytes) const;

  cudaStream_t stream_;
  bool listens_ = false;
  cudaGraphNode_t before_ = nullptr;  // the stream's last node
};

}  // namespace openwork
