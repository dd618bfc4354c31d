// The last step of both passes: partial sums added up in a fixed order.
#pragma once
#include "ops/cuda/softmax.cuh"

namespace openwork::cuda {

inline constexpr int kPartThreads = 256;

// Penalty and active of one head of one sample, by one warp.
__device__ __forceinline__ void add_forward_parts(const Forward& a, int64_t head) {
  const int parts = count_parts(a.problem.T), lane = threadIdx.x & 31;
  float penalty = 0;
  int64_t active = 0;
  for (int part = lane; part < parts; part += 32) {
    penalty += __ldcg(a.penalty_parts + head * parts + part);  // from where other blocks have put it
    active += __ldcg(a.active_parts + head * parts + part);
  }
  penalty = sum_over_warp(penalty);
  active = sum_over_warp(active);
  if (lane == 0) {
    a.penalty[head] = static_cast<float>(penalty / (0.5 * a.problem.T * (a.problem.T + 1.0)));
    a.active[head] = active;
  }
}

// Gate gradients, by one block of kPartThreads a head: dbias, and by a second one didle.
__host__ __device__ inline int count_gate_sums(const Backward& a) {
  return a.problem.H * (a.idle_parts ? 2 : 1);
}
__device__ __forceinline__ void add_gate_parts(const Backward& a, int block) {
  __shared__ float warp_sums[kPartThreads / 32];
  const Problem& p = a.problem;
  const int parts = count_parts(p.T), h = block % p.H;
  const bool of_idle = block >= p.H;
  const int64_t count = static_cast<int64_t>(p.B) * parts;
  const float* from = of_idle ? a.idle_parts : a.bias_parts;
  float sum = 0;
  for (int64_t index = threadIdx.x; index < count; index += kPartThreads) {
    sum += from[(index / parts * p.H + h) * parts + index % parts];
  }
  sum = sum_over_warp(sum);
  if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int warp = 1; warp < kPartThreads / 32; ++warp) sum += warp_sums[warp];
  (of_idle ? a.grad_idle : a.grad_bias)[h] = sum;
}

}  // namespace openwork::cuda
