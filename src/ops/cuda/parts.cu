// The last step of both passes: partial sums added up in a fixed order.
#include "ops/cuda/softmax.cuh"

namespace openwork::cuda {
namespace {

constexpr int kThreads = 256;

// One warp per (batch element, head).
__global__ void __launch_bounds__(kThreads) forward_parts_kernel(const __grid_constant__ Forward a) {
  const int64_t head = static_cast<int64_t>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
  const int parts = count_parts(a.problem.T), lane = threadIdx.x & 31;
  if (head >= static_cast<int64_t>(a.problem.B) * a.problem.H) return;
  float penalty = 0;
  int64_t active = 0;
  for (int part = lane; part < parts; part += 32) {
    penalty += a.penalty_parts[head * parts + part];
    active += a.active_parts[head * parts + part];
  }
  penalty = sum_over_warp(penalty);
  active = sum_over_warp(active);
  if (lane == 0) {
    a.penalty[head] = static_cast<float>(penalty / (0.5 * a.problem.T * (a.problem.T + 1.0)));
    a.active[head] = active;
  }
}

// One block per head, over all batch elements: dbias, and with a second row of blocks didle.
__global__ void __launch_bounds__(kThreads) gate_parts_kernel(const __grid_constant__ Backward a) {
  __shared__ float warp_sums[kThreads / 32];
  const Problem& p = a.problem;
  const int parts = count_parts(p.T), h = blockIdx.x;
  const int64_t count = static_cast<int64_t>(p.B) * parts;
  const float* from = blockIdx.y == 0 ? a.bias_parts : a.idle_parts;
  float sum = 0;
  for (int64_t index = threadIdx.x; index < count; index += kThreads) {
    sum += from[(index / parts * p.H + h) * parts + index % parts];
  }
  sum = sum_over_warp(sum);
  if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int warp = 1; warp < kThreads / 32; ++warp) sum += warp_sums[warp];
  (blockIdx.y == 0 ? a.grad_bias : a.grad_idle)[h] = sum;
}

}  // namespace

cudaError_t launch_sum_forward_parts(const Forward& a, cudaStream_t stream) {
  const int64_t heads = static_cast<int64_t>(a.problem.B) * a.problem.H;
  const unsigned blocks = static_cast<unsigned>((heads + kThreads / 32 - 1) / (kThreads / 32));
  forward_parts_kernel<<<blocks, kThreads, 0, stream>>>(a);
  return cudaGetLastError();
}

cudaError_t launch_sum_gate_parts(const Backward& a, cudaStream_t stream) {
  gate_parts_kernel<<<dim3(a.problem.H, a.idle_parts ? 2 : 1), kThreads, 0, stream>>>(a);
  return cudaGetLastError();
}

}  // namespace openwork::cuda
