#include "ops/cuda/seeded_nodes.h"

#include <c10/cuda/CUDAException.h>

#include <atomic>
#include <cstring>
#include <mutex>

namespace openwork {
namespace {

// Backward passes launch from a thread of autograd's own.
std::mutex listener_mutex;
SeededNodes* listener = nullptr;
std::atomic<bool> somebody_listens = false;

bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  C10_CUDA_CHECK(cudaStreamIsCapturing(stream, &status));
  return status == cudaStreamCaptureStatusActive;
}

// What the next launch on a capturing stream will follow; null where it is the first.
cudaGraphNode_t last_node(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaGraphNode_t* nodes = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  size_t count = 0;
  C10_CUDA_CHECK(cudaStreamGetCaptureInfo(stream, &status, nullptr, nullptr, &nodes, &edges, &count));
  TORCH_CHECK(count <= 1, "gated_attention: recorded behind ", count,
              " kernels; one after another is wanted");
  return count == 0 ? nullptr : nodes[0];
}

cudaGraphNode_t node_before(cudaGraphNode_t node) {
  cudaGraphNode_t before = nullptr;
  cudaGraphEdgeData edge = {};
  size_t count = 1;
  C10_CUDA_CHECK(cudaGraphNodeGetDependencies(node, &before, &edge, &count));
  return count == 0 ? nullptr : before;
}

SeededNode read_node(cudaGraphNode_t node, size_t argument_bytes) {
  SeededNode result;
  result.node = node;
  C10_CUDA_CHECK(cudaGraphKernelNodeGetParams(node, &result.launch));
  result.arguments.resize(argument_bytes);
  std::memcpy(result.arguments.data(), result.launch.kernelParams[0], argument_bytes);
  return result;
}

}  // namespace

SeededNodes::SeededNodes() {
  const std::lock_guard lock(listener_mutex);
  TORCH_CHECK(!listener, "gated_attention: one recording at a time");
  listener = this;
  somebody_listens = true;
}

SeededNodes::~SeededNodes() {
  stop();
}

void SeededNodes::stop() {
  const std::lock_guard lock(listener_mutex);
  if (listener != this) return;
  listener = nullptr;
  somebody_listens = false;
}

void SeededNodes::write(cudaGraphExec_t graph, const NewSeeds& seeds) {
  for (auto& [recorded, node] : entries_) {
    const auto found = seeds.find(recorded);
    if (found == seeds.end()) continue;
    node.problem().seed = static_cast<uint64_t>(found->second);
    cuda::spread_seed(node.problem());
    void* arguments[] = {node.arguments.data()};
    cudaKernelNodeParams launch = node.launch;
    launch.kernelParams = arguments;
    C10_CUDA_CHECK(cudaGraphExecKernelNodeSetParams(graph, node.node, &launch));
  }
}

SeededLaunches::SeededLaunches(const cuda::Problem& problem, cudaStream_t stream)
    : stream_(stream), listens_(problem.sampled && somebody_listens && is_capturing(stream)) {
  if (listens_) before_ = last_node(stream);
}

void SeededLaunches::note(size_t argument_bytes) const {
  const std::lock_guard lock(listener_mutex);
  if (!listener) return;
  for (cudaGraphNode_t node = last_node(stream_); node != before_; node = node_before(node)) {
    SeededNode launched = read_node(node, argument_bytes);
    const auto recorded = static_cast<int64_t>(launched.problem().seed);
    listener->entries_.push_back({recorded, std::move(launched)});
  }
}

}  // namespace openwork
