// parts.cuh by kernels of their own, for walks that do not add up their parts themselves.
#include "ops/cuda/parts.cuh"

namespace openwork::cuda {
namespace {

__global__ void __launch_bounds__(kPartThreads) forward_parts_kernel(const __grid_constant__ Forward a) {
  const int64_t head = static_cast<int64_t>(blockIdx.x) * (kPartThreads / 32) + threadIdx.x / 32;
  if (head < static_cast<int64_t>(a.problem.B) * a.problem.H) add_forward_parts(a, head);
}

__global__ void __launch_bounds__(kPartThreads) gate_parts_kernel(const __grid_constant__ Backward a) {
  add_gate_parts(a, static_cast<int>(blockIdx.x));
}

}  // namespace

cudaError_t launch_sum_forward_parts(const Forward& a, cudaStream_t stream) {
  const int64_t heads = static_cast<int64_t>(a.problem.B) * a.problem.H;
  const unsigned blocks = static_cast<unsigned>((heads + kPartThreads / 32 - 1) / (kPartThreads / 32));
  forward_parts_kernel<<<blocks, kPartThreads, 0, stream>>>(a);
  return cudaGetLastError();
}

cudaError_t launch_sum_gate_parts(const Backward& a, cudaStream_t stream) {
  gate_parts_kernel<<<count_gate_sums(a), kPartThreads, 0, stream>>>(a);
  return cudaGetLastError();
}

}  // namespace openwork::cuda
